"""Whitened training patches as filters; beyond the paper (Coates and Ng 2012; Thiry et al. 2021).

With the covariance C and the mean μ of all patches, a filter is w = (C + εI)⁻¹ (p - μ) for a random patch p. Its
response to x is the inner product of x and p after both are whitened. A direction of variance v has the weight
√v/(v + ε) in such a filter, which is largest at v = ε. So ε sets the scale of the details and suppresses noise.
"""

from __future__ import annotations

import torch

from .bank import BankOptions, Filters, PatchSource, sample_patches
from .eigen import SINGULAR
from .registry import register_bank

RIDGE = 0.1  # ε, relative to the mean variance


@register_bank("patches")
def patch_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return ``count`` random patches, whitened twice, of unit norm; the bias is chosen like that of PCA filters."""
    values, vectors = torch.linalg.eigh(source.covariance())
    regular = values > SINGULAR * values.max().clamp_min(torch.finfo(values.dtype).tiny)
    basis, variances = vectors[:, regular], values[regular] + RIDGE * values.clamp_min(0).mean()
    mean = source.mean().to(basis.device)
    drawn = sample_patches(source, generator, count).to(basis.device) - mean
    weights = (drawn @ basis / variances) @ basis.T
    bias = -weights @ mean if options.pca_bias == "mean" else weights.new_zeros(count)
    return Filters(weights, bias).unit_norm()
