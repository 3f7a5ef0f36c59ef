"""Gaussian kernel of the distances between images, summed over layers; beyond the paper.

z(x) are the features of an image in all layers, standardised on the training images. Without mirror images

    k(x, y) = exp(-s‖z(x) - z(y)‖²)

With them, x̄ is the mirror image of x, and k is the mean over both pairings,

    k(x, y) = ½ exp(-s(‖z(x) - z(y)‖² + ‖z(x̄) - z(ȳ)‖²)) + ½ exp(-s(‖z(x) - z(ȳ)‖² + ‖z(x̄) - z(y)‖²)),

so k is the same for an image and its mirror image. Regression on k is regression on all images and their mirror
images, with half as many equations.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..numerics.linear_algebra import add_product_

PART = 2**24  # features that are standardised at a time
FARTHEST = 1000.0  # standard deviations at which features are clipped, so that float16 does not overflow


@dataclass(frozen=True)
class Standard:
    """Mean (D,) and 1/standard deviation (D,) of features; the latter is 0 for a feature that hardly varies."""

    mean: Tensor
    scale: Tensor

    @staticmethod
    def of(features: Tensor) -> Standard:
        """Return mean and scale of features (views, n, D), over images and views."""
        rows = features.flatten(0, 1)
        dtype = torch.promote_types(features.dtype, torch.float32)
        mean = rows.sum(0, dtype=dtype) / len(rows)
        variance = torch.zeros_like(mean)
        for part in _parts(rows):
            variance += ((part - mean) ** 2).sum(0) / len(rows)
        rounding = max(torch.finfo(features.dtype).eps, 64 * torch.finfo(dtype).eps)  # of the features, of their mean
        varies = variance > rounding**2 * (mean**2 + variance)
        return Standard(mean, torch.where(varies, variance.rsqrt(), 0))

    def apply_(self, features: Tensor) -> Tensor:
        """Standardise features (views, n, D) in place."""
        for view in features:
            for part in _parts(view):
                part.copy_(((part.to(self.mean.dtype) - self.mean) * self.scale).clamp_(-FARTHEST, FARTHEST))
        return features


class PairDistances:
    """Squared distances between two sets of images, summed over layers, for each pairing of their views.

    The sets have ``rows`` and ``columns`` images, in 1 view, or in 2 with mirror images; there are as many pairings.
    Sums have the device and the type of ``like``.
    """

    def __init__(self, rows: int, columns: int, views: int, like: Tensor) -> None:
        self._squares = [like.new_zeros(rows, columns) for _ in range(views)]

    def add(self, rows: Tensor, columns: Tensor) -> None:
        """Add a layer's standardised features (views, m, D) and (views, n, D)."""
        for way, total in enumerate(self._squares):
            for view, these in enumerate(rows):
                others = columns[view ^ way]
                add_product_(total, -2 * these, others.T)
                total.add_(_norms(these, total.dtype)[:, None]).add_(_norms(others, total.dtype))

    def median(self, most: int = 2000) -> float:
        """Return the median squared distance within a set, unmirrored, over at most ``most`` of its images."""
        total = self._squares[0]
        some = torch.arange(0, len(total), -(-len(total) // most), device=total.device)
        later, earlier = torch.tril_indices(len(some), len(some), -1, device=some.device)
        return float(total[some[later], some[earlier]].median()) if len(later) else 0.0

    def kernel_(self, scale: float) -> Tensor:
        """Turn distances into k, shape (rows, columns), in place; the object cannot be used afterwards."""
        total, *others = (squares.clamp_min_(0).mul_(-scale).exp_() for squares in self._squares)
        for other in others:
            total.add_(other)
        self._squares = []
        return total.div_(1 + len(others))


def _parts(rows: Tensor) -> tuple[Tensor, ...]:
    """Split rows (n, D) into parts small enough for temporary copies."""
    return torch.split(rows, max(1, PART // rows.shape[1]))


def _norms(features: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ‖z‖² of features (n, D), shape (n,)."""
    norms: Tensor = torch.linalg.vector_norm(features, dim=1, dtype=dtype)
    return norms.square()
