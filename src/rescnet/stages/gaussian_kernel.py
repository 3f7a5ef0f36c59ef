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

from .linear_algebra import PANEL, add_product_

SLICE = 2**24  # entries of a matrix, or features, at a time
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
        dtype = torch.float32 if features.dtype == torch.float16 else features.dtype
        mean, variance = (torch.zeros(rows.shape[1], dtype=dtype, device=rows.device) for _ in range(2))
        for part in _parts(rows):
            mean += part.sum(0, dtype=dtype) / len(rows)
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
        self._products = [like.new_zeros(rows, columns) for _ in range(views)]
        self._rows, self._columns = like.new_zeros(rows), like.new_zeros(columns)

    def add(self, rows: Tensor, columns: Tensor) -> None:
        """Add a layer's standardised features (views, m, D) and (views, n, D)."""
        self._rows += _norms(rows, self._rows.dtype)
        self._columns += _norms(columns, self._columns.dtype)
        for way, total in enumerate(self._products):
            for view in range(len(rows)):
                _add_products_(total, rows[view], columns[view ^ way])

    def add_own(self, features: Tensor) -> None:
        """Add the features of a set that is compared with itself: the lower triangle only, panel by panel."""
        norms = _norms(features, self._rows.dtype)
        self._rows += norms
        self._columns += norms
        for way, total in enumerate(self._products):
            for view in range(len(features)):
                for start in range(0, len(total), PANEL):
                    panel = features[view ^ way, start : start + PANEL]
                    _add_products_(total[start:, start : start + PANEL], features[view, start:], panel)

    def median(self, most: int = 2000) -> float:
        """Return the median squared distance within a set, unmirrored, over at most ``most`` of its images."""
        some = torch.arange(0, len(self._rows), -(-len(self._rows) // most), device=self._rows.device)
        later, earlier = torch.tril_indices(len(some), len(some), -1, device=some.device)
        pairs = some[later], some[earlier]
        if not len(later):
            return 0.0
        return float((self._rows[pairs[0]] + self._columns[pairs[1]] - 2 * self._products[0][pairs]).median())

    def kernel_(self, scale: float) -> Tensor:
        """Turn distances into k, shape (rows, columns), in place; the object cannot be used afterwards."""
        total, *others = self._products
        rows = max(1, SLICE // max(1, total.shape[1]))
        for start in range(0, len(total), rows):
            part = slice(start, start + rows)
            norms = self._rows[part, None] + self._columns
            for way in (total, *others):
                way[part].mul_(-2).add_(norms).clamp_min_(0).mul_(-scale).exp_()
            for way in others:
                total[part].add_(way[part])
        self._products = []
        return total.div_(1 + len(others))


def _parts(rows: Tensor) -> tuple[Tensor, ...]:
    """Split rows (n, D) into parts small enough for temporary copies."""
    return torch.split(rows, max(1, SLICE // max(1, rows.shape[1])))


def _norms(features: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ‖z‖² over views and features, shape (n,)."""
    return torch.stack([torch.cat([(part.to(dtype) ** 2).sum(1) for part in _parts(view)]) for view in features]).sum(0)


def _add_products_(total: Tensor, rows: Tensor, columns: Tensor) -> None:
    """Add ``rows @ columnsᵀ`` to ``total`` (m, n), for rows (m, D) and columns (n, D) of one type."""
    if rows.dtype == torch.float16:
        add_product_(total, rows, columns.T)
    else:
        total.addmm_(rows, columns.T)
