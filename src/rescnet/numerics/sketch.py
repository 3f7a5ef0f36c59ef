"""Sketches: few numbers per layer that keep the distances between images; beyond the paper.

A layer has D features f, e.g. 41,600. Each is standardised, given a random sign and added to one of m sums::

    x_b = Σ_{j ≡ b mod m} w_j f_j,      w_j = ±1 / (σ_j √D)

The products of different features cancel on average, so ‖x - x'‖² is an unbiased estimate of the mean squared
difference of the standardised features (a count sketch). It costs one addition per feature and stores w alone.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..config.network import NetworkConfig
from .linear_algebra import CACHED_ROWS

TOTAL, LEAST = 51_200, 64  # numbers of all layers together, and of one layer at least


def sketch_size(config: NetworkConfig, image_size: tuple[int, int]) -> int:
    """Return m, the numbers per image and layer."""
    return min(config.features(image_size), max(LEAST, TOTAL // config.layers))


def sketch(features: Tensor, weights: Tensor, size: int) -> Tensor:
    """Return x, shape (n, m), of features (n, D) with weights w (D,), in the type of the weights."""
    if features.is_cuda or torch.compiler.is_compiling():
        return _sums(features, weights, size)
    return torch.cat([_sums(part, weights, size) for part in torch.split(features, CACHED_ROWS)])


def _sums(features: Tensor, weights: Tensor, size: int) -> Tensor:
    weighted = F.pad(features.to(weights.dtype) * weights, (0, -len(weights) % size))
    return weighted.reshape(-1, weighted.shape[1] // size, size).sum(1)


def sketch_weights(variances: Tensor, floor: Tensor, seed: int) -> Tensor:
    """Return w (D,) from the variances (D,) of the features; 0 where the variance is not above the ``floor`` (D,)."""
    signs = torch.randint(0, 2, variances.shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    scale = torch.where(variances > floor, variances.rsqrt(), 0).div_(len(variances) ** 0.5)
    return scale.mul_(signs.to(scale))
