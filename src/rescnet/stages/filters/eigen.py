"""Leading eigenvectors, their signs, and inverse square roots of matrices that may be singular."""

from __future__ import annotations

import torch
from torch import Tensor

SINGULAR = 1e-6  # of the largest eigenvalue: smaller eigenvalues are rounding errors of float32 sums


def leading_eigenvectors(matrix: Tensor, count: int) -> Tensor:
    """Return ``count`` eigenvectors of symmetric (..., M, M), largest eigenvalue first, shape (..., M, count)."""
    vectors: Tensor = torch.linalg.eigh(matrix).eigenvectors  # ascending order, as columns
    return vectors.flip(-1)[..., :count]


def inverse_root(matrix: Tensor, ridge: float = 0.0) -> Tensor:
    """Return A^(-1/2) of a symmetric matrix on its non-singular subspace, shape (M, rank): columns q/√λ.

    With a ridge r the columns are q/√(λ + r·λ̄), where λ̄ is the mean eigenvalue; the subspace stays the same.
    """
    values, vectors = torch.linalg.eigh(matrix)
    regular = values > SINGULAR * values.max().clamp_min(torch.finfo(values.dtype).tiny)
    root: Tensor = (vectors[:, regular] / (values[regular] + ridge * values.mean()).sqrt()).flip(1)
    return root


def fix_signs(filters: Tensor) -> Tensor:
    """Make the largest component of each row positive: the sign of an eigenvector is arbitrary, ReLU depends on it."""
    largest = filters.abs().argmax(1, keepdim=True)
    return filters * filters.gather(1, largest).sign()
