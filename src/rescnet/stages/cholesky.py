"""How a symmetric positive definite matrix is solved: by its Cholesky factor, and what is said where it has none."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Solver = Callable[[Tensor], Tensor]
"""Solves A x = b for the matrix it was made from: (D, K) → (D, K)."""


class NotPositiveDefiniteError(ArithmeticError):
    """The regularised scatter is not positive definite, or so nearly not that what is solved from it is noise."""


def cholesky_factor(matrix: Tensor) -> Tensor:
    """Return the lower Cholesky factor of a symmetric matrix, of which the lower triangle is read."""
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)
    if int(info) != 0 or not bool(factor.diagonal().isfinite().all()):
        raise NotPositiveDefiniteError("the regularised scatter is not positive definite.")
    return factor


def cholesky_solver(matrix: Tensor) -> Solver:
    """Factorise a symmetric matrix, of which the lower triangle is read, and return what solves with it."""
    factor = cholesky_factor(matrix)
    return lambda right: torch.cholesky_solve(right, factor)
