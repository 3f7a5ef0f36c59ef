"""ICA filters (ICANet): patches are centred and whitened to L dimensions, then unmixed by FastICA with log cosh.

Filters are unmixing × whitening. The algorithm is Hyvärinen's symmetric FastICA (1999). It runs on a sample of the
patches, which is our own choice.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from .bank import BankOptions, Filters, PatchSource, check_count, register_bank, sample_patches
from .eigen import fix_signs, inverse_root

MOST_ITERATIONS = 200
TOLERANCE = 1e-5

logger = logging.getLogger(__name__)


@register_bank("ica")
def ica_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return ``count`` independent components of a sample of the patches, without bias."""
    patches = sample_patches(source, generator)
    weights = independent_components(patches, count, generator)
    return Filters(weights, weights.new_zeros(count)).unit_norm()


def independent_components(samples: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return filters (count, M) with uncorrelated, maximally independent responses to ``samples`` (n, M)."""
    centred = samples - samples.mean(0)
    whitening = inverse_root(centred.T @ centred / len(centred))  # (M, rank), largest variance first
    check_count("ICA", count, whitening.shape[1])
    whitening = whitening[:, :count]
    unmixing = fast_ica(centred @ whitening, generator)
    return fix_signs(unmixing @ whitening.T)


def fast_ica(white: Tensor, generator: torch.Generator) -> Tensor:
    """Return the rotation (L, L) that makes white samples (n, L) independent, by fixed-point steps on log cosh."""
    size = white.shape[1]
    start = torch.randn(size, size, generator=generator, dtype=white.dtype).to(white.device)
    rotation = _nearest_rotation(start)
    for _ in range(MOST_ITERATIONS):
        slope = torch.tanh(white @ rotation.T)  # (n, L)
        curvature = 1 - slope.square().mean(0)
        new = _nearest_rotation(slope.T @ white / len(white) - curvature[:, None] * rotation)
        change = float(((new * rotation).sum(1).abs() - 1).abs().max())
        rotation = new
        if change < TOLERANCE:
            return rotation
    logger.info("FastICA has not converged: last change %.1e after %d iterations.", change, MOST_ITERATIONS)
    return rotation


def _nearest_rotation(matrix: Tensor) -> Tensor:
    """Return (AAᵀ)^(-1/2) A."""
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    rotation: Tensor = left @ right
    return rotation
