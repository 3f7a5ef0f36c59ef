"""Triton programs of :mod:`rescnet.kernels.pooling`, which explains them."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def centre_maps(
    maps,
    x,
    centre,
    floor,
    relative_floor,
    pixels,
    d,
    image_stride,
    channel_stride,
    pixel_stride,
    STEP: tl.constexpr,
    CHANNELS: tl.constexpr,
    UNIT: tl.constexpr,
    FLAT: tl.constexpr,
):
    """Rectify one image's maps and subtract their mean: → x (n, h·w, CHANNELS), centre, floor.

    With UNIT each map is also divided by its standard deviation: a channel z-score does not change, and half precision
    becomes more accurate. ``centre`` is the mean and ``floor`` the variance below which a block is flat, in this unit.
    """
    image = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, CHANNELS)
    maps += image * image_stride
    x += image * pixels * CHANNELS
    total = tl.zeros((CHANNELS,), tl.float32)
    squares = tl.zeros((CHANNELS,), tl.float32)
    for start in range(0, pixels, STEP):
        pixel = start + tl.arange(0, STEP)
        inside = (pixel < pixels)[:, None] & (channel < d)[None, :]
        places = pixel[:, None] * pixel_stride + channel[None, :] * channel_stride
        value = tl.load(maps + places, mask=inside, other=0.0).to(tl.float32)
        value = tl.maximum(value, 0.0)
        total += tl.sum(value, 0)
        squares += tl.sum(value * value, 0)
    mean = total / pixels
    unit = tl.full((CHANNELS,), 1.0, tl.float32)
    variance = squares / pixels - mean * mean
    if UNIT:
        unit = tl.where(variance > 4e-6 * squares / pixels, tl.rsqrt(tl.maximum(variance, 1e-37)), 0.0)
    tl.store(centre + image * CHANNELS + channel, mean * unit)
    least = tl.maximum(relative_floor * mean * mean, FLAT * FLAT * variance) * unit * unit
    tl.store(floor + image * CHANNELS + channel, least)
    for start in range(0, pixels, STEP):
        pixel = start + tl.arange(0, STEP)
        inside = (pixel < pixels)[:, None] & (channel < d)[None, :]
        places = pixel[:, None] * pixel_stride + channel[None, :] * channel_stride
        value = tl.load(maps + places, mask=inside, other=0.0).to(tl.float32)
        value = tl.maximum(value, 0.0)
        value = tl.where((channel < d)[None, :], (value - mean[None, :]) * unit[None, :], 0.0)
        tl.store(x + pixel[:, None] * CHANNELS + channel[None, :], value, mask=(pixel < pixels)[:, None])


@triton.jit
def row_sums(
    x,
    sums,
    h,
    w,
    block_rows,
    BLOCK_H: tl.constexpr,
    STRIDE_H: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """Sum x and x² over the rows of each block row: x (n, h, w, CHANNELS) → sums (n, 2, block rows, w, CHANNELS)."""
    image = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    place = column[:, None] * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    inside = (column < w)[:, None]
    x += image * h * w * CHANNELS
    sums += image * 2 * block_rows * w * CHANNELS
    total = tl.zeros((COLUMNS, CHANNELS), tl.float32)
    squares = tl.zeros((COLUMNS, CHANNELS), tl.float32)
    for row in range(h):
        value = tl.load(x + row * w * CHANNELS + place, mask=inside, other=0.0).to(tl.float32)
        total += value
        squares += value * value
        before = tl.load(x + (row - BLOCK_H) * w * CHANNELS + place, mask=inside & (row >= BLOCK_H), other=0.0)
        before = before.to(tl.float32)
        total -= before
        squares -= before * before
        top = row - BLOCK_H + 1
        if (top >= 0) & (top % STRIDE_H == 0) & (top // STRIDE_H < block_rows):
            tl.store(sums + (top // STRIDE_H) * w * CHANNELS + place, total, mask=inside)
            tl.store(sums + (block_rows + top // STRIDE_H) * w * CHANNELS + place, squares, mask=inside)


@triton.jit
def block_scales(
    sums,
    centre,
    floor,
    scales,
    w,
    d,
    block_rows,
    block_columns,
    BLOCK_W: tl.constexpr,
    STRIDE_W: tl.constexpr,
    PIXELS: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
    WHOLE_BLOCK: tl.constexpr,
):
    """Compute 1/σ and mean/σ of each block: scales (n, block rows, block columns, 2, CHANNELS)."""
    image = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, CHANNELS)
    real = (channel < d)[None, :]
    inside = (row < block_rows)[:, None] & (channel < CHANNELS)[None, :]
    sums += image * 2 * block_rows * w * CHANNELS
    scales += image * block_rows * block_columns * 2 * CHANNELS
    mean_map = tl.load(centre + image * CHANNELS + channel)[None, :]
    least = tl.load(floor + image * CHANNELS + channel)[None, :]
    place = row[:, None] * w * CHANNELS + channel[None, :]
    further = block_rows * w * CHANNELS
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    squares = tl.zeros((ROWS, CHANNELS), tl.float32)
    for column in range(w):
        gained = sums + column * CHANNELS + place
        total += tl.load(gained, mask=inside, other=0.0)
        squares += tl.load(gained + further, mask=inside, other=0.0)
        lost = sums + (column - BLOCK_W) * CHANNELS + place
        total -= tl.load(lost, mask=inside & (column >= BLOCK_W), other=0.0)
        squares -= tl.load(lost + further, mask=inside & (column >= BLOCK_W), other=0.0)
        left = column - BLOCK_W + 1
        if (left >= 0) & (left % STRIDE_W == 0) & (left // STRIDE_W < block_columns):
            mean = total / PIXELS
            square = squares / PIXELS
            variance = square - mean * mean
            alive = (variance > tl.maximum(32 * 1.2e-7 * square, least)) & real
            if WHOLE_BLOCK:
                variance = tl.where(alive, variance, 0.0)
                level = tl.where(real, mean + mean_map, 0.0)
                average = (tl.sum(level, 1) / d)[:, None]
                between = tl.sum(tl.where(real, (level - average) * (level - average), 0.0), 1) / d
                variance = (tl.sum(variance, 1) / d + between)[:, None] + tl.zeros_like(mean)
            scale = tl.where(alive & (variance > 0), tl.rsqrt(tl.maximum(variance, 1e-37)), 0.0)
            to = scales + (row[:, None] * block_columns + left // STRIDE_W) * 2 * CHANNELS + channel[None, :]
            tl.store(to, scale, mask=inside)
            tl.store(to + CHANNELS, mean * scale, mask=inside)


@triton.jit
def normalised(products, block, CHANNELS: tl.constexpr, PIXELS: tl.constexpr):
    """Return a block's covariance from its sums of products and its scales (2, CHANNELS): 1/σ, mean/σ."""
    channel = tl.arange(0, CHANNELS)
    scale = tl.load(block + channel)
    mean = tl.load(block + CHANNELS + channel)
    scaled = products * (scale * (1.0 / PIXELS))[:, None] * scale[None, :]
    return scaled - mean[:, None] * mean[None, :]


@triton.jit
def pool_atoms(
    x,  # (n, h, w, CHANNELS), rectified and centred
    scales,  # (n, block rows, block columns, 2, CHANNELS)
    pooled,  # (n, atom rows, atom columns, pairs)
    row_cuts,
    column_cuts,
    pixels,  # h·w
    w,
    d,
    block_rows,
    block_columns,
    atom_rows,
    atom_columns,
    pairs,
    BLOCK_H: tl.constexpr,
    BLOCK_W: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    FILL: tl.constexpr,
    SLIDES: tl.constexpr,
    WIDTH: tl.constexpr,
    SIDE: tl.constexpr,
    CHANNELS: tl.constexpr,
    DIAGONAL: tl.constexpr,
    MAXIMUM: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Reduce the normalised block covariances of one image over one atom.

    The first block of a row is multiplied in full, FILL pixels per product. If blocks overlap enough (SLIDES), the next
    block is updated: gained strips are added and lost strips subtracted, both in one product. Rows 0 to SIDE of its
    tile are a new strip of WIDTH columns, the others the old strip. Otherwise every block is multiplied in full.
    """
    program = tl.program_id(0)
    image = (program // (atom_rows * atom_columns)).to(tl.int64)
    atom = program % (atom_rows * atom_columns)
    top = tl.load(row_cuts + atom // atom_columns)
    bottom = tl.load(row_cuts + atom // atom_columns + 1)
    left = tl.load(column_cuts + atom % atom_columns)
    right = tl.load(column_cuts + atom % atom_columns + 1)
    x += image * pixels * CHANNELS
    scales += image * block_rows * block_columns * 2 * CHANNELS
    channel = tl.arange(0, CHANNELS)
    PIXELS: tl.constexpr = BLOCK_H * BLOCK_W

    within = tl.arange(0, 2 * SIDE) % SIDE
    old = tl.arange(0, 2 * SIDE) >= SIDE
    used = within < BLOCK_H * WIDTH
    offset = (within // WIDTH) * w + within % WIDTH + tl.where(old, -BLOCK_W, 0)
    sign = tl.where(old, -1.0, 1.0)

    best = tl.full((CHANNELS, CHANNELS), float("-inf") if MAXIMUM else 0.0, tl.float32)
    for row in range(top, bottom):
        filled = right if not SLIDES else left + 1  # blocks before this one are multiplied in full
        products = tl.zeros((CHANNELS, CHANNELS), tl.float32)
        for column in range(left, filled):
            corner = row * STRIDE_H * w + column * STRIDE_W
            products = tl.zeros((CHANNELS, CHANNELS), tl.float32)
            for first in range(0, PIXELS, FILL):
                pixel = first + tl.arange(0, FILL)
                place = (corner + (pixel // BLOCK_W) * w + pixel % BLOCK_W)[:, None] * CHANNELS + channel[None, :]
                tile = tl.load(x + place, mask=(pixel < PIXELS)[:, None], other=0.0)
                products = tl.dot(tl.trans(tile), tile, products, input_precision=PRECISION)
            value = normalised(products, scales + (row * block_columns + column) * 2 * CHANNELS, CHANNELS, PIXELS)
            best = tl.maximum(best, value) if MAXIMUM else best + value
        for column in range(filled, right):
            corner = row * STRIDE_H * w + (column - 1) * STRIDE_W + BLOCK_W
            for strip in range(0, STRIDE_W, WIDTH):
                place = (corner + strip + offset)[:, None] * CHANNELS + channel[None, :]
                tile = tl.load(x + place, mask=used[:, None], other=0.0)
                signed = (tile * sign[:, None]).to(tile.dtype)
                products = tl.dot(tl.trans(signed), tile, products, input_precision=PRECISION)
            value = normalised(products, scales + (row * block_columns + column) * 2 * CHANNELS, CHANNELS, PIXELS)
            best = tl.maximum(best, value) if MAXIMUM else best + value
    if not MAXIMUM:
        best *= 1.0 / ((bottom - top) * (right - left))

    i = channel[:, None]
    j = channel[None, :]
    if DIAGONAL:
        place = i * d - i * (i - 1) // 2 + j - i
        wanted = (i <= j) & (j < d)
    else:
        place = i * d - i * (i + 1) // 2 + j - i - 1
        wanted = (i < j) & (j < d)
    tl.store(pooled + program.to(tl.int64) * pairs + place, best, mask=wanted)


@triton.jit
def join_atoms(
    pooled,  # (n, atom rows, atom columns, pairs)
    cells,  # (cells, 4): first and last atom row, first and last atom column, ends excluded
    heights,
    widths,
    features,  # (n, cells, pairs)
    atom_rows,
    atom_columns,
    pairs,
    CELLS: tl.constexpr,
    WIDTH: tl.constexpr,
    MAXIMUM: tl.constexpr,
):
    """Reduce the atoms of one image to cells, WIDTH pairs per program: the maximum, or the mean over blocks."""
    image = tl.program_id(0).to(tl.int64)
    pair = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = pair < pairs
    pooled += image * atom_rows * atom_columns * pairs
    features += image * CELLS * pairs
    for cell in range(CELLS):
        top = tl.load(cells + 4 * cell)
        bottom = tl.load(cells + 4 * cell + 1)
        left = tl.load(cells + 4 * cell + 2)
        right = tl.load(cells + 4 * cell + 3)
        best = tl.full((WIDTH,), float("-inf") if MAXIMUM else 0.0, tl.float32)
        blocks = 0.0
        for row in range(top, bottom):
            for column in range(left, right):
                atom = pooled + (row * atom_columns + column) * pairs
                value = tl.load(atom + pair, mask=inside, other=0.0).to(tl.float32)
                if MAXIMUM:
                    best = tl.maximum(best, value)
                else:
                    share = tl.load(heights + row) * tl.load(widths + column)
                    blocks += share
                    best += share * value
        if not MAXIMUM:
            best = best / blocks
        tl.store(features + cell * pairs + pair, best, mask=inside)
