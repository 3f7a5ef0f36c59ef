"""Filters that are training patches, whitened twice; beyond the paper (Coates and Ng 2012; Thiry et al. 2021).

With C the covariance of patches and μ their mean, w = (C + εI)⁻¹ (p - μ) for a patch p drawn at random: its response
to x is the inner product of x and p after both were whitened. A direction of variance v has the weight √v/(v + ε) in
such a filter, most at v = ε, so ε says which details filters of unit norm look at, and keeps noise from ruling them.
"""

from __future__ import annotations

import torch

from .bank import BankOptions, Filters, PatchSource
from .eigen import SINGULAR
from .registry import register_bank
from .sampling import sample_patches

RIDGE = 0.1  # ε, relative to the mean variance


@register_bank("patches")
def patch_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return ``count`` drawn patches, whitened twice, of unit norm; the bias is that of PCA filters."""
    values, vectors = torch.linalg.eigh(source.covariance())
    regular = values > SINGULAR * values.max().clamp_min(torch.finfo(values.dtype).tiny)
    basis, variances = vectors[:, regular], values[regular] + RIDGE * values.clamp_min(0).mean()
    mean = source.mean().to(basis.device)
    drawn = sample_patches(source, generator, count).to(basis.device) - mean
    weights = (drawn @ basis / variances) @ basis.T
    bias = -weights @ mean if options.pca_bias == "mean" else weights.new_zeros(count)
    return Filters(weights, bias).unit_norm()
