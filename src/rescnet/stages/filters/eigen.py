"""Eigenvectors as banks need them: leading ones first, signs fixed, inverse roots of matrices that may be singular."""

from __future__ import annotations

import torch
from torch import Tensor

SINGULAR = 1e-6  # of the greatest eigenvalue: what lies below is the rounding of float32 sums


def leading_eigenvectors(matrix: Tensor, count: int) -> Tensor:
    """Return ``count`` eigenvectors of symmetric (..., M, M), greatest eigenvalue first, shape (..., M, count)."""
    vectors: Tensor = torch.linalg.eigh(matrix).eigenvectors  # ascending order, as columns
    return vectors.flip(-1)[..., :count]


def inverse_root(matrix: Tensor, ridge: float = 0.0) -> Tensor:
    """Return A^(-1/2) of a symmetric matrix on the space where it is not singular, as (M, rank): columns q/√λ.

    With a ridge r, columns are q/√(λ + r·λ̄), λ̄ the mean eigenvalue; the space stays the same.
    """
    values, vectors = torch.linalg.eigh(matrix)
    regular = values > SINGULAR * values.max().clamp_min(torch.finfo(values.dtype).tiny)
    root: Tensor = (vectors[:, regular] / (values[regular] + ridge * values.mean()).sqrt()).flip(1)
    return root


def fix_signs(filters: Tensor) -> Tensor:
    """Make each row's largest component positive: an eigenvector's sign is arbitrary, ReLU's output is not."""
    largest = filters.abs().argmax(1, keepdim=True)
    return filters * filters.gather(1, largest).sign()
