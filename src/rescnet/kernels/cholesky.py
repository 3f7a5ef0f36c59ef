"""A blocked Cholesky factorisation whose updates run on tensor cores.

Diagonal blocks are factorised, and columns below them solved, in float32; what is left is updated by products of
half-precision panels with float32 sums: D³/3 operations at the matrix units' rate instead of the float32 units'. The
factor is then good to about three digits: as good as the half-precision Gram matrix it comes from, and an excellent
preconditioner where more is wanted (:func:`refine`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..stages.discriminant import Solver, cholesky_solver
from ..stages.half_products import add_product_

BLOCK = 2048


def blocked_cholesky(matrix: Tensor, block: int = BLOCK) -> tuple[Tensor, bool]:
    """Factorise a symmetric positive definite matrix in place, of which only the lower triangle is read.

    Parameters
    ----------
    matrix : Tensor, shape (D, D), float32
        Holds the lower factor afterwards; its upper triangle is meaningless.

    Returns
    -------
    factor : Tensor, shape (D, D)
        The same memory.
    succeeded : bool
    """
    size = len(matrix)
    infos = []
    for start in range(0, size, block):
        end = min(start + block, size)
        diagonal = matrix[start:end, start:end]
        factor, info = torch.linalg.cholesky_ex(diagonal)
        infos.append(info)
        diagonal.copy_(factor)
        if end == size:
            break
        below = matrix[end:, start:end]
        below.copy_(torch.linalg.solve_triangular(factor.T, below, upper=True, left=False))
        panel = below.half()
        negative = -panel
        for column in range(end, size, block):
            stop = min(column + block, size)
            add_product_(matrix[column:, column:stop], negative[column - end :], panel[column - end : stop - end].T)
    return matrix, bool(torch.stack(infos).eq(0).all())


def blocked_solver(matrix: Tensor, block: int = BLOCK) -> Solver:
    """Factorise a symmetric matrix by blocks, and return what solves with it, refined; for ``cholesky_solver``."""
    factor, succeeded = blocked_cholesky(matrix.clone(), block)
    if not succeeded or not bool(factor.diagonal().isfinite().all()):
        del factor
        return cholesky_solver(matrix)  # what rounding spoilt may still be positive definite
    return lambda right: refine(matrix, factor, right)


def refine(matrix: Tensor, factor: Tensor, right: Tensor, steps: int = 2) -> Tensor:
    """Solve ``matrix · x = right`` with an approximate factor, improved by conjugate gradients.

    Parameters
    ----------
    matrix : Tensor, shape (D, D)
        Symmetric; only the lower triangle is read, and the upper one set to zero.
    factor : Tensor, shape (D, D)
        Lower factor, approximate.
    right : Tensor, shape (D, K)
    steps : int
        Each costs one pass over the matrix for all columns together.
    """
    matrix.tril_()

    def times(x: Tensor) -> Tensor:
        return matrix @ x + matrix.T @ x - matrix.diagonal()[:, None] * x

    x = torch.cholesky_solve(right, factor)
    residual = right - times(x)
    direction = torch.cholesky_solve(residual, factor)
    rho = (residual * direction).sum(0)
    search = direction
    for step in range(steps):
        image = times(search)
        length = rho / (search * image).sum(0).clamp_min(torch.finfo(rho.dtype).tiny)
        x = x + length * search
        if step == steps - 1:
            break
        residual = residual - length * image
        direction = torch.cholesky_solve(residual, factor)
        rho, before = (residual * direction).sum(0), rho
        search = direction + rho / before.clamp_min(torch.finfo(rho.dtype).tiny) * search
    return x
