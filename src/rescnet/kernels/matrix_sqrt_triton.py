"""The Triton program behind ``kernels.roots``, which tells what it computes and why."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def root_of_cell(
    features,  # (n·cells, pairs)
    roots,  # likewise
    pairs,
    d,
    SIDE: tl.constexpr,
    DIAGONAL: tl.constexpr,
    STEPS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Replace the upper triangle of one d×d matrix by that of its square root; the matrix stays in registers.

    The symmetric matrix is written out to SIDE×SIDE, zeros beyond d; where DIAGONAL is false its diagonal is 1.
    """
    cell = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, SIDE)[:, None]
    j = tl.arange(0, SIDE)[None, :]
    row = tl.minimum(i, j)
    column = tl.maximum(i, j)
    place = row * d - row * (row - 1) // 2 + column - row
    inside = column < d
    if not DIAGONAL:
        place -= row + 1
        inside = inside & (row < column)
    matrix = tl.load(features + cell * pairs + place, mask=inside, other=0.0).to(tl.float32)
    if not DIAGONAL:
        matrix = tl.where((i == j) & (i < d), 1.0, matrix)
    trace = tl.sum(tl.sum(tl.where(i == j, matrix, 0.0), 1), 0)
    trace = tl.where(trace > 0, trace, 1.0)
    kind = features.dtype.element_ty
    one_and_a_half = tl.where(i == j, 1.5, 0.0)
    root = (matrix / trace).to(kind)
    step = (one_and_a_half - 0.5 * root.to(tl.float32)).to(kind)
    inverse = step
    root = tl.dot(root, step, input_precision=PRECISION).to(kind)
    for _ in range(STEPS - 1):
        step = (one_and_a_half - 0.5 * tl.dot(inverse, root, input_precision=PRECISION)).to(kind)
        root = tl.dot(root, step, input_precision=PRECISION).to(kind)
        inverse = tl.dot(step, inverse, input_precision=PRECISION).to(kind)
    found = root.to(tl.float32) * tl.sqrt(trace)
    tl.store(roots + cell * pairs + place, found.to(kind), mask=inside & (i <= j))
