"""Gaussian kernel between the codes of images, k(x, y) = exp(-s‖c(x) - c(y)‖²); beyond the paper."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .linear_algebra import product


@dataclass(frozen=True)
class Codes:
    """Codes of n images."""

    values: Tensor  # c, (n, r); in half precision on a GPU
    norms: Tensor  # ‖c‖², (n,); not in half precision

    @staticmethod
    def of(values: Tensor) -> Codes:
        """Return codes with their norms."""
        wide = torch.promote_types(values.dtype, torch.float32)
        return Codes(values, torch.linalg.vector_norm(values, dim=1, dtype=wide).square())

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | Tensor) -> Codes:
        return Codes(self.values[rows], self.norms[rows])


def code_kernel(rows: Codes, columns: Codes, scale: float) -> Tensor:
    """Return k between two sets of images, shape (m, n)."""
    near = _products(rows.values, columns.values).mul_(2).sub_(rows.norms[:, None]).sub_(columns.norms)
    return near.clamp_max_(0).mul_(scale).exp_()


def median_squared_distance(codes: Codes, most: int = 2000) -> float:
    """Return the median ‖c - c'‖² over at most ``most`` of the images; 0 for a single image."""
    some = codes[torch.arange(0, len(codes), -(-len(codes) // most), device=codes.norms.device)]
    if len(some) < 2:
        return 0.0
    squares = _products(some.values, some.values).mul_(-2).add_(some.norms).add_(some.norms[:, None])
    later, earlier = torch.tril_indices(len(some), len(some), -1, device=squares.device)
    return max(0.0, float(squares[later, earlier].median()))


def kernel_scale(width: float, median: float) -> float:
    """Return s = w/d² from the width w and the median squared distance d²; 0 if the images do not differ."""
    return width / median if median > 0 else 0.0


def _products(a: Tensor, b: Tensor) -> Tensor:
    return product(a, b.T) if a.dtype == torch.float16 else a @ b.T
