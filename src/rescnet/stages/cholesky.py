"""Solution of linear systems with a symmetric positive definite matrix, by its Cholesky factor."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Solver = Callable[[Tensor], Tensor]
"""Function b → x that solves A x = b for one matrix A: (D, K) → (D, K)."""


class NotPositiveDefiniteError(ArithmeticError):
    """Regularised scatter that is not positive definite, or too close to singular for an accurate solution."""


def cholesky_factor(matrix: Tensor) -> Tensor:
    """Return the lower Cholesky factor of a symmetric matrix; only its lower triangle is read."""
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)
    if int(info) != 0 or not bool(factor.diagonal().isfinite().all()):
        raise NotPositiveDefiniteError("the regularised scatter must be positive definite.")
    return factor


def cholesky_solver(matrix: Tensor) -> Solver:
    """Factorise a symmetric matrix and return its solver; only the lower triangle is read."""
    factor = cholesky_factor(matrix)
    return lambda right: torch.cholesky_solve(right, factor)
