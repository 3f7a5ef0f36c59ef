"""The readout's system of equations, (K + εI)·q = Y or Y - Ỹ, with one row per training image, solved exactly.

One Cholesky factor takes N³/3 operations, and as many again for the leave-one-out outputs. If the matrix does not fit
in memory, :mod:`rescnet.training.readout.iterative` solves the system.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ...base.errors import NumericalError
from ...numerics.code_kernel import Codes, code_kernel
from ...numerics.linear_algebra import (
    PANEL,
    NotPositiveDefiniteError,
    cholesky_,
    factor_solve,
    growing_ridges,
    inverse_blocks,
)
from ...numerics.threads import one_thread_if_small

CONSTANT_UNTIL = 100_000  # rows: with more, ε grows in proportion, as the eigenvalues of K do
UNSOLVED = "the kernel readout could not be solved. Check the images for extreme values."


@dataclass(frozen=True)
class Solution:
    """Solution of the system.

    Attributes
    ----------
    columns : Tensor, shape (N, K)
        (K + εI)⁻¹ times the right sides.
    blocks : Tensor, shape (images, c, c), optional
        Blocks on the diagonal of (K + εI)⁻¹, one per image with p rows; None if they are not known.
    ridge : float
        The ε used.
    steps : int
        Steps of conjugate gradients; 0 if the solution is exact, and the diagonal too.
    residual : float
        Largest relative residual of a column; 0 if the solution is exact.
    start : Tensor, shape (N, K + signs), optional
        ``columns`` and those of random signs, from which conjugate gradients can start again.
    """

    columns: Tensor
    blocks: Tensor | None
    ridge: float
    steps: int = 0
    residual: float = 0.0
    start: Tensor | None = None


def ridge_for(rows: int, ridge: float) -> float:
    """Return ε for a number of rows: the option ``kernel_ridge``, times the rows beyond :data:`CONSTANT_UNTIL`.

    The eigenvalues of K grow like N, so the condition of K + εI, and the steps it takes, stay the same.
    """
    return ridge * max(1.0, rows / CONSTANT_UNTIL)


def exact_bytes(images: int, itemsize: int = 4) -> int:
    """Return the bytes that the exact solution takes: the matrix, and the panels in use."""
    return itemsize * images * (images + 3 * min(images, PANEL))


def system_operations(rows: int, size: int) -> int:
    """Return the operations of a kernel between codes, its factor and the blocks of its inverse."""
    return rows**2 * size + rows**3


def solve_exactly(
    codes: Codes, right: Tensor, scale: float, ridge: float, per_image: int = 1, ridge_factors: Tensor | None = None
) -> Solution:
    """Solve the system for right sides (N, K) by one Cholesky factor, with a larger ε where K + εI is indefinite.

    Each image has ``per_image`` consecutive rows; with 0 no block of the inverse is computed.
    ``ridge_factors`` (N,) are factors of ε, 1/w for a row of weight w.
    """
    matrix = right.new_empty(len(codes), len(codes))
    for tried in growing_ridges(ridge):
        for start in range(0, len(codes), PANEL):
            panel = slice(start, start + PANEL)
            matrix[start:, panel] = code_kernel(codes[start:], codes[panel], scale)
        matrix.diagonal().fill_(1).add_(tried if ridge_factors is None else tried * ridge_factors)
        with one_thread_if_small(len(codes)):
            try:
                cholesky_(matrix)
            except NotPositiveDefiniteError:
                continue
            return Solution(
                factor_solve(matrix, right), inverse_blocks(matrix, per_image) if per_image else None, tried
            )
    raise NumericalError(UNSOLVED)
