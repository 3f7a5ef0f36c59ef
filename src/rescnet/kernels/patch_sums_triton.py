"""Triton program of :mod:`rescnet.kernels.patch_sums`, which explains it."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def shifted(x, place, channel, row, column, down, right, alive, h, w, CHANNELS: tl.constexpr):
    """Load the pixels ``down`` rows and ``right`` columns further; zero outside the image."""
    inside = alive & (row + down < h) & (column + right >= 0) & (column + right < w)
    further = (place + down * w + right)[:, None] * CHANNELS + channel[None, :]
    return tl.load(x + further, mask=inside[:, None] & (channel < CHANNELS)[None, :], other=0.0)


@triton.jit
def zone_products(
    x,  # (n, h, w, CHANNELS)
    work,  # (items, 6): a zone's first row, rows, first column, columns; first and last (excluded) pixel
    sums,  # (items, 3, 5, PADDED, PADDED)
    h,
    w,
    CHANNELS: tl.constexpr,
    TILE: tl.constexpr,
    PADDED: tl.constexpr,
    STEP: tl.constexpr,
):
    """Sum x(q) x(q + δ)ᵀ over some pixels q of one zone, for one row shift and all five column shifts δ."""
    item = tl.program_id(0)
    down = tl.program_id(1)
    tiles: tl.constexpr = PADDED // TILE
    i = (tl.program_id(2) // tiles) * TILE + tl.arange(0, TILE)
    j = (tl.program_id(2) % tiles) * TILE + tl.arange(0, TILE)
    top = tl.load(work + item * 6)
    rows = tl.load(work + item * 6 + 1)
    left = tl.load(work + item * 6 + 2)
    columns = tl.load(work + item * 6 + 3)
    first = tl.load(work + item * 6 + 4)
    last = tl.load(work + item * 6 + 5)
    sum_0 = tl.zeros((TILE, TILE), tl.float32)
    sum_1 = tl.zeros((TILE, TILE), tl.float32)
    sum_2 = tl.zeros((TILE, TILE), tl.float32)
    sum_3 = tl.zeros((TILE, TILE), tl.float32)
    sum_4 = tl.zeros((TILE, TILE), tl.float32)
    for start in range(first, last, STEP):
        pixel = start + tl.arange(0, STEP)
        alive = pixel < last
        within = pixel % (rows * columns)
        row = top + within // columns
        column = left + within % columns
        place = (pixel // (rows * columns)).to(tl.int64) * h * w + row * w + column
        here = tl.trans(shifted(x, place, i, row, column, 0, 0, alive, h, w, CHANNELS))
        sum_0 = tl.dot(here, shifted(x, place, j, row, column, down, -2, alive, h, w, CHANNELS), sum_0)
        sum_1 = tl.dot(here, shifted(x, place, j, row, column, down, -1, alive, h, w, CHANNELS), sum_1)
        sum_2 = tl.dot(here, shifted(x, place, j, row, column, down, 0, alive, h, w, CHANNELS), sum_2)
        sum_3 = tl.dot(here, shifted(x, place, j, row, column, down, 1, alive, h, w, CHANNELS), sum_3)
        sum_4 = tl.dot(here, shifted(x, place, j, row, column, down, 2, alive, h, w, CHANNELS), sum_4)
    to = sums + (item * 3 + down).to(tl.int64) * 5 * PADDED * PADDED + i[:, None] * PADDED + j[None, :]
    tl.store(to, sum_0)
    tl.store(to + PADDED * PADDED, sum_1)
    tl.store(to + 2 * PADDED * PADDED, sum_2)
    tl.store(to + 3 * PADDED * PADDED, sum_3)
    tl.store(to + 4 * PADDED * PADDED, sum_4)
