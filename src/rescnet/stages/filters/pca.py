"""PCA filters (equations 1 and 3): the leading eigenvectors of the patch covariance."""

from __future__ import annotations

import torch
from torch import Tensor

from .interface import BankOptions, Filters, NotEnoughFiltersError, PatchSource
from .registry import register_bank


@register_bank("pca")
def pca_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return the ``count`` principal components of the patches."""
    covariance = source.covariance()
    if count > len(covariance):
        raise NotEnoughFiltersError(
            f"{count} PCA filters were asked of patches with {len(covariance)} numbers: ask for at most "
            f"{len(covariance)}, or take larger filters."
        )
    vectors = torch.linalg.eigh(covariance).eigenvectors  # ascending order, as columns
    filters = _fix_signs(vectors.flip(1)[:, :count].T.contiguous())
    bias = -filters @ source.mean() if options.pca_bias == "mean" else covariance.new_zeros(count)
    return Filters(filters, bias)


def _fix_signs(filters: Tensor) -> Tensor:
    """Make each filter's largest component positive: an eigenvector's sign is arbitrary, ReLU's output is not."""
    largest = filters.abs().argmax(1, keepdim=True)
    return filters * filters.gather(1, largest).sign()
