"""Sums over features on a GPU: sketches, sums over columns, and moments, in kernels that join passes over memory.

PyTorch would convert, scale, pad and add up the features of a chunk in passes of their own: 1.2 GB for the sketches of
1,000 images of 41,600 features in half precision, which have 83 MB. It subtracts a row from a matrix at a fifth of the
memory's speed. It scales the scatter of 41,600 features in four passes over the whole matrix, 55 GB; the lower
triangle, read and written once, has 7 GB.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..stages.moments import Moments

SKETCHED, IMAGES = 128, 8  # numbers and images per program of sketch_tile
ADDED, AT_A_TIME = 64, 32  # columns per program of add_columns, and rows at a time
ROWS, COLUMNS = 16, 128  # per program of subtract_row
SIDE = 64  # of a tile of the scatter


def fused_sketch(features: Tensor, weights: Tensor, size: int) -> Tensor:
    """Return the result of ``numerics.sketch.sketch`` of features (n, D), weights (D,) in float32, shape (n, size)."""
    sketches = torch.empty(len(features), size, device=features.device)
    grid = triton.cdiv(len(features), IMAGES), triton.cdiv(size, SKETCHED)
    sizes = len(features), len(weights), size
    sketch_tile[grid](features, features.stride(0), weights, sketches, *sizes, ROWS=IMAGES, COLUMNS=SKETCHED)
    return sketches


def add_column_sums_(sums: Tensor, features: Tensor, shift: Tensor) -> None:
    """Add Σ (f - shift) and Σ (f - shift)² of features (n, D) to ``sums`` (2, D), float64; ``shift`` is (D,)."""
    grid = (triton.cdiv(features.shape[1], ADDED),)
    add_columns[grid](features, features.stride(0), shift, sums, *features.shape, ROWS=AT_A_TIME, COLUMNS=ADDED)


class FusedMoments(Moments):
    """Moments of features in half precision on a GPU."""

    def shifted(self, features: Tensor) -> Tensor:
        """Return features (n, D) minus the shift. Half precision holds the shift exactly."""
        difference = torch.empty_like(features)
        grid = triton.cdiv(features.shape[0], ROWS), triton.cdiv(features.shape[1], COLUMNS)
        subtract_row[grid](
            features, features.stride(0), self.shift, difference, *features.shape, ROWS=ROWS, COLUMNS=COLUMNS
        )
        return difference

    def scaled_scatter(self, scale: Tensor) -> Tensor:
        """Return the scatter of scaled features (D, D), of which the lower triangle is set."""
        size = len(scale)
        scatter = torch.empty_like(self.gram)
        tiles = triton.cdiv(size, SIDE)
        scale_tile[(tiles, tiles)](self.gram, self.mean_offset, scale, scatter, 1 / self.count, size, SIDE=SIDE)
        return scatter


@triton.jit
def sketch_tile(
    features,  # (n, D), ``stride`` numbers from one image to the next
    stride,
    weights,  # (D,)
    found,  # (n, size)
    n,
    D,
    size,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Compute some numbers of the sketches of some images."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    place = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = features + row.to(tl.int64)[:, None] * stride
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, D, size):
        column = first + place
        inside = (place < size) & (column < D)
        weight = tl.load(weights + column, mask=inside, other=0.0)
        value = tl.load(here + column[None, :], mask=(row < n)[:, None] & inside[None, :], other=0.0)
        total += value.to(tl.float32) * weight[None, :]
    to = found + row.to(tl.int64)[:, None] * size + place[None, :]
    tl.store(to, total, mask=(row < n)[:, None] & (place < size)[None, :])


@triton.jit
def add_columns(
    features,  # (n, D), ``stride`` numbers from one image to the next
    stride,
    shift,  # (D,)
    sums,  # (2, D), float64
    n,
    D,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add the sums of some columns over all images."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    low = tl.load(shift + column, mask=column < D, other=0.0)[None, :]
    total = tl.zeros((COLUMNS,), tl.float32)
    squares = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, n, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < n)[:, None] & (column < D)[None, :]
        value = tl.load(features + row.to(tl.int64)[:, None] * stride + column[None, :], mask=inside, other=0.0)
        value = tl.where(inside, value.to(tl.float32) - low, 0.0)
        total += tl.sum(value, 0)
        squares += tl.sum(value * value, 0)
    to = sums + column
    tl.store(to, tl.load(to, mask=column < D, other=0.0) + total.to(tl.float64), mask=column < D)
    to += D
    tl.store(to, tl.load(to, mask=column < D, other=0.0) + squares.to(tl.float64), mask=column < D)


@triton.jit
def subtract_row(
    features,  # (n, D), ``stride`` numbers from one row to the next
    stride,
    row,  # (D,)
    found,  # (n, D)
    n,
    D,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Subtract the shift from a tile of the features."""
    line = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (line < n)[:, None] & (column < D)[None, :]
    line = line.to(tl.int64)[:, None]
    value = tl.load(features + line * stride + column[None, :], mask=inside, other=0.0).to(tl.float32)
    value -= tl.load(row + column, mask=column < D, other=0.0)[None, :]
    tl.store(found + line * D + column[None, :], value, mask=inside)


@triton.jit
def scale_tile(
    gram,  # (D, D)
    offset,  # (D,)
    scale,  # (D,)
    found,  # (D, D)
    share,  # 1/n
    D,
    SIDE: tl.constexpr,
):
    """Compute one tile of the lower triangle of s (G/n - m mᵀ) sᵀ."""
    if tl.program_id(1) > tl.program_id(0):
        return
    i = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    j = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    place = i.to(tl.int64)[:, None] * D + j[None, :]
    inside = (i < D)[:, None] & (j < D)[None, :]
    value = tl.load(gram + place, mask=inside, other=0.0) * share
    value -= tl.load(offset + i, mask=i < D, other=0.0)[:, None] * tl.load(offset + j, mask=j < D, other=0.0)[None, :]
    value *= tl.load(scale + j, mask=j < D, other=0.0)[None, :]
    tl.store(found + place, value * tl.load(scale + i, mask=i < D, other=0.0)[:, None], mask=inside)
