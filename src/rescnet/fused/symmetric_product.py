"""Product of a symmetric matrix, of which only the lower triangle is read, with a few columns, on tensor cores.

The matrix and the columns are float32. Each is split into two TF32 numbers, and three of the four products are summed
(``tf32x3``), so the result is nearly that of float32. A matrix of 41,600 features has 3.5 GB in its lower triangle,
which are read twice: 1.7 ms at 4 TB/s. Products of whole matrices in float32 read 14 GB.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

MOST_COLUMNS = 96  # with more, whole products of panels are faster
ROWS, STEP = 64, 32  # per program, and columns of the matrix per product; ROWS is a multiple of STEP
LAUNCH = {"num_warps": 4, "num_stages": 3}


def symmetric_product(matrix: Tensor, x: Tensor) -> Tensor:
    """Return A x, shape (D, K), for the lower triangle of A (D, D) and x (D, K), float32."""
    size, columns = x.shape
    width = 16 if columns <= 16 else 32  # columns per program
    # Whole tiles are loaded without a mask, row by row; the right side of a ridge regression is a transposed matrix.
    given = functional.pad(x, (0, -columns % width, 0, -size % ROWS)).contiguous()
    out = torch.empty_like(given)
    multiply_rows[(given.shape[1] // width, triton.cdiv(size, ROWS))](
        *(matrix, matrix.stride(0), given, out, size, given.shape[1]), ROWS=ROWS, STEP=STEP, WIDTH=width, **LAUNCH
    )
    return out[:size, :columns]


@triton.jit
def multiply_rows(
    matrix,  # (D, D), ``stride`` numbers from one row to the next
    stride,
    x,  # (D, columns); zeros follow, to multiples of ROWS and WIDTH
    out,  # (D, columns), as large
    size,  # D
    columns,
    ROWS: tl.constexpr,
    STEP: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Compute ROWS rows of the product: left of the diagonal, around it, and below, where the matrix is transposed.

    Programs of the same rows follow each other, so only the first of them reads the matrix from memory.
    """
    first = tl.program_id(1) * ROWS
    row = first + tl.arange(0, ROWS)
    column = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    here = row.to(tl.int64)[:, None] * stride
    x += column[None, :]
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in range(0, first, STEP):
        inner = start + tl.arange(0, STEP)
        part = tl.load(matrix + here + inner[None, :], mask=(row < size)[:, None], other=0.0)
        total = tl.dot(part, tl.load(x + inner[:, None] * columns), total, input_precision="tf32x3")
    for start in range(first, first + ROWS, STEP):
        inner = start + tl.arange(0, STEP)
        there = inner.to(tl.int64)[None, :] * stride
        place = tl.where(row[:, None] >= inner[None, :], here + inner[None, :], there + row[:, None])
        part = tl.load(matrix + place, mask=(row < size)[:, None] & (inner < size)[None, :], other=0.0)
        total = tl.dot(part, tl.load(x + inner[:, None] * columns), total, input_precision="tf32x3")
    for start in range(first + ROWS, size, STEP):
        inner = start + tl.arange(0, STEP)
        there = inner.to(tl.int64)[:, None] * stride
        part = tl.load(matrix + there + row[None, :], mask=(inner < size)[:, None], other=0.0)
        total = tl.dot(tl.trans(part), tl.load(x + inner[:, None] * columns), total, input_precision="tf32x3")
    tl.store(out + row[:, None] * columns + column[None, :], total)
