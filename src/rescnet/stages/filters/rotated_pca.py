"""Rotated PCA filters, beyond the paper: random directions in the span of whitened principal components.

PCA finds the same filters on the same input again, as where layers restart from the image. A rotation of the leading
components, each divided by its patches' deviation, spans what they span and is fresh in every layer.
"""

from __future__ import annotations

import torch

from .bank import BankOptions, Filters, NotEnoughFiltersError, PatchSource
from .eigen import SINGULAR
from .registry import register_bank


@register_bank("rotated-pca")
def rotated_pca_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return the rows of Q (Λ + εI)^(-1/2) Vᵀ, of unit norm; the bias is that of PCA filters.

    V are the ``count`` leading principal components, Λ their variances, Q a random rotation.
    """
    covariance = source.covariance()
    if count > len(covariance):
        raise NotEnoughFiltersError(
            f"{count} rotated PCA filters were asked of patches with {len(covariance)} numbers: ask for at most "
            f"{len(covariance)}, or take larger filters."
        )
    values, vectors = torch.linalg.eigh(covariance)
    values = values.clamp_min(0)
    least = (SINGULAR * values.max()).clamp_min(torch.finfo(values.dtype).tiny)
    variances = (values + options.patch_ridge * values.mean()).clamp_min(least).flip(0)[:count]
    gaussian = torch.randn(count, count, generator=generator, dtype=torch.float64)
    rotation: torch.Tensor = torch.linalg.qr(gaussian).Q.to(values.device)
    weights = rotation @ (vectors.flip(1)[:, :count] / variances.sqrt()).T
    bias = -weights @ source.mean().to(weights.device) if options.pca_bias == "mean" else weights.new_zeros(count)
    return Filters(weights, bias).unit_norm()
