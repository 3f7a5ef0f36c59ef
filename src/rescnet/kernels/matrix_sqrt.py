"""Matrix square roots of all cells in one Triton kernel, after stage 6; each matrix stays in registers.

:mod:`rescnet.stages.pooling` writes every iteration to memory: with 50 maps in half precision about 0.3 MB per
matrix, and there is one matrix per image and cell. The kernel reads and writes one triangle, 5 kB per matrix. In
between it computes thirteen 64×64 products, on tensor cores for half precision.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..config.geometry import count_pairs
from ..stages.pooling import ITERATIONS


def fused_roots(features: Tensor, channels: int, diagonal: bool) -> Tensor:
    """Return the result of ``stages.pooling.matrix_roots``, shape (n, cells·pairs)."""
    features = features.contiguous()
    pairs = count_pairs(channels, diagonal)
    roots = torch.empty_like(features)
    root_of_cell[(features.numel() // pairs,)](
        features,
        roots,
        pairs,
        channels,
        SIDE=max(16, triton.next_power_of_2(channels)),
        DIAGONAL=diagonal,
        STEPS=ITERATIONS,
        PRECISION="ieee" if features.dtype.itemsize >= 4 else "tf32",  # ignored for half precision
        num_warps=4,
    )
    return roots


@triton.jit
def root_of_cell(
    features,  # (n·cells, pairs)
    roots,  # (n·cells, pairs)
    pairs,
    d,
    SIDE: tl.constexpr,
    DIAGONAL: tl.constexpr,
    STEPS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Replace the upper triangle of one d×d matrix by that of its square root; the matrix stays in registers.

    The symmetric matrix is padded to SIDE×SIDE with zeros; without DIAGONAL its diagonal is 1.
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
