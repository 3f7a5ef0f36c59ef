"""Banks without labels in a few lines each: principal components, random filters and whitened patches.

With the covariance C and the mean μ of all patches, a filter of the bank ``patches`` is w = (C + εI)⁻¹ (p - μ) for a
random patch p. Its response to x is the inner product of x and p after both are whitened. A direction of variance v
has the weight √v/(v + ε) in such a filter, which is largest at v = ε. So ε sets the scale of the details and suppresses
noise. This bank goes beyond the paper (Coates and Ng 2012; Thiry et al. 2021).
"""

from __future__ import annotations

import torch

from .bank import BankOptions, Filters, PatchSource, check_count, register_bank, sample_patches
from .eigen import SINGULAR, fix_signs, leading_eigenvectors

RIDGE = 0.1  # ε, relative to the mean variance


@register_bank("pca")
def pca_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return the ``count`` leading eigenvectors of the patch covariance (equations 1 and 3)."""
    covariance = source.covariance()
    check_count("PCA", count, len(covariance))
    filters = fix_signs(leading_eigenvectors(covariance, count).T.contiguous())
    if options.pca_signs == "drawn":
        filters *= 2 * torch.randint(2, (count, 1), generator=generator).to(filters) - 1
    bias = -filters @ source.mean() if options.pca_bias == "mean" else covariance.new_zeros(count)
    return Filters(filters, bias)


@register_bank("random")
def random_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return ``count`` Gaussian filters of unit norm, without bias, a baseline (RandNet: Chan et al. 2015)."""
    weights = torch.randn(count, source.channels * source.size**2, generator=generator, dtype=torch.float64)
    return Filters(weights, torch.zeros(count, dtype=torch.float64)).unit_norm()


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
