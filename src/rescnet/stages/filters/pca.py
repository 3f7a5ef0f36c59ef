"""PCA filters (equations 1 and 3): the leading eigenvectors of the patch covariance."""

from __future__ import annotations

import torch

from .bank import BankOptions, Filters, PatchSource, check_count
from .eigen import fix_signs, leading_eigenvectors
from .registry import register_bank


@register_bank("pca")
def pca_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return the ``count`` principal components of the patches."""
    covariance = source.covariance()
    check_count("PCA", count, len(covariance))
    filters = fix_signs(leading_eigenvectors(covariance, count).T.contiguous())
    if options.pca_signs == "drawn":
        filters *= 2 * torch.randint(2, (count, 1), generator=generator).to(filters) - 1
    bias = -filters @ source.mean() if options.pca_bias == "mean" else covariance.new_zeros(count)
    return Filters(filters, bias)
