"""Blocked Cholesky factorisation on tensor cores, refined by conjugate gradients.

Diagonal blocks are factorised and inverted in float32. The panel below is multiplied by the inverse, and the remaining
matrix is updated, by half-precision products with float32 sums. So D³/3 operations run on tensor cores. The factor is
accurate to about three digits, like the half-precision Gram matrix it is computed from. That makes it a good
preconditioner, with which :func:`refine` adds digits. Thanks to the stored inverses a solve consists of matrix products
instead of substitution row by row. TF32, whose numbers have three digits, is enough for these.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ..numerics.linear_algebra import Solver, add_product_, cholesky_solver, lower_copy, split, tf32_products
from . import symmetric_multiplier

BLOCK = 2048
LEAST_BLOCK = 128  # whose inverse is computed by substitution
COLUMNS = 8  # right sides are padded to a multiple of it, for tensor cores
TOLERANCE = 1e-3  # residual of a solution relative to the right side: half-precision features are no more accurate
MOST_STEPS = 8


@dataclass(frozen=True)
class BlockedFactor:
    """Lower Cholesky factor and the inverses of its diagonal blocks."""

    lower: Tensor  # float32, (D, D); the upper triangle is not used
    inverses: list[Tensor]  # one per diagonal block; all but the last have the same size

    def solve(self, right: Tensor) -> Tensor:
        """Return the solution x of ``L Lᵀ x = right``, shape (D, K); on a GPU to about three digits."""
        with tf32_products():
            return self._solve(right.clone())

    def _solve(self, x: Tensor) -> Tensor:
        block = len(self.inverses[0])
        for index, inverse in enumerate(self.inverses):
            start = index * block
            here = slice(start, start + block)
            x[here] = inverse @ (x[here] - self.lower[here, :start] @ x[:start])
        for index, inverse in reversed(list(enumerate(self.inverses))):
            start, end = index * block, index * block + len(inverse)
            x[start:end] = inverse.T @ (x[start:end] - self.lower[end:, start:end].T @ x[end:])
        return x


def blocked_cholesky(matrix: Tensor, block: int = BLOCK) -> BlockedFactor | None:
    """Factorise a symmetric positive definite matrix (D, D), float32, in place; only the lower triangle is read.

    Returns None if the rounded matrix is not positive definite.
    """
    size = len(matrix)
    infos, inverses = [], []
    for start in range(0, size, block):
        end = min(start + block, size)
        diagonal = matrix[start:end, start:end]
        factor, info = torch.linalg.cholesky_ex(diagonal)
        infos.append(info)
        diagonal.copy_(factor)
        inverses.append(inverse_of_lower(factor))
        if end == size:
            break
        below = matrix[end:, start:end]
        rounded, (high, low) = below.half(), split(inverses[-1].T)
        add_product_(below, rounded, high, beta=0)
        add_product_(below, rounded, low)
        panel = below.half()
        negative = -panel
        for column in range(end, size, block):
            stop = min(column + block, size)
            add_product_(matrix[column:, column:stop], negative[column - end :], panel[column - end : stop - end].T)
    succeeded = bool(torch.stack(infos).eq(0).all() & matrix.diagonal().isfinite().all())
    return BlockedFactor(matrix, inverses) if succeeded else None


def inverse_of_lower(factor: Tensor) -> Tensor:
    """Return the inverse of a lower triangular matrix (n, n), by products of inverses of blocks.

    The inverse of [[A, 0], [B, C]] is [[A⁻¹, 0], [-C⁻¹BA⁻¹, C⁻¹]]. Substitution alone takes several times as long on a
    GPU, since each row waits for those before.
    """
    size, least = len(factor), LEAST_BLOCK
    padded = least * 2 ** max(0, (-(-size // least) - 1).bit_length())
    whole = torch.eye(padded, dtype=factor.dtype, device=factor.device)
    whole[:size, :size] = factor
    corners = whole.unfold(0, least, least).unfold(1, least, least).diagonal().permute(2, 0, 1)  # (blocks, side, side)
    identity = torch.eye(least, dtype=factor.dtype, device=factor.device).expand_as(corners)
    inverses = torch.linalg.solve_triangular(corners, identity, upper=False)
    while (side := inverses.shape[1]) < padded:
        joined = inverses.new_zeros(len(inverses) // 2, 2 * side, 2 * side)
        joined[:, :side, :side], joined[:, side:, side:] = inverses[::2], inverses[1::2]
        below = whole.unfold(0, 2 * side, 2 * side).unfold(1, 2 * side, 2 * side).diagonal().permute(2, 0, 1)
        joined[:, side:, :side] = -(inverses[1::2] @ (below[:, side:, :side] @ inverses[::2]))
        inverses = joined
    inverse: Tensor = inverses[0, :size, :size].contiguous()
    return inverse


def blocked_solver(matrix: Tensor, block: int = BLOCK, tolerance: float = TOLERANCE) -> Solver:
    """Factorise a symmetric matrix by blocks and return its refined solver; a replacement of ``cholesky_solver``.

    If the blocked factorisation fails, or its refinement does not converge, the plain factorisation is used.
    """
    blocked = blocked_cholesky(lower_copy(matrix), block)
    if blocked is None:
        return cholesky_solver(matrix)
    factors = [blocked]

    def solve(right: Tensor) -> Tensor:
        if factors:
            padded = functional.pad(right, (0, -right.shape[1] % COLUMNS))
            x, converged = refine(matrix, factors[0], padded, tolerance)
            if converged:
                return x[:, : right.shape[1]]
            factors.clear()  # frees memory for the plain factor
        return cholesky_solver(matrix)(right)

    return solve


def refine(
    matrix: Tensor, factor: BlockedFactor, right: Tensor, tolerance: float = TOLERANCE, most_steps: int = MOST_STEPS
) -> tuple[Tensor, bool]:
    """Solve ``matrix · x = right`` (D, K) with an approximate factor, improved by conjugate gradients.

    Only the lower triangle of the matrix is read. Each step costs two passes over the triangle and two over the factor.
    Also returns whether no column's residual, relative to the column, exceeds the tolerance.
    """
    wanted = tolerance * right.norm(dim=0)
    tiny = torch.finfo(right.dtype).tiny
    times = symmetric_multiplier(matrix)
    x = factor.solve(right)
    residual = right - times(x)
    search: Tensor | None = None
    before = residual.new_ones(right.shape[1])
    for _ in range(most_steps):
        if bool((residual.norm(dim=0) <= wanted).all()):
            return x, True
        direction = factor.solve(residual)
        rho = (residual * direction).sum(0)
        search = direction if search is None else direction + rho / before.clamp_min(tiny) * search
        image = times(search)
        length = rho / (search * image).sum(0).clamp_min(tiny)
        x = x + length * search
        residual = residual - length * image
        before = rho
    return x, bool((residual.norm(dim=0) <= wanted).all())
