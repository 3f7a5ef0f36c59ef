"""Triton programs of :mod:`rescnet.fused.pooling`, which explains them."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_places(start, pixels, raw, channel_stride, pixel_stride, STEP: tl.constexpr, RAW: tl.constexpr):
    """Return STEP pixels from ``start`` on, their channels, the places of both in an image's maps, and which exist."""
    pixel = start + tl.arange(0, STEP)
    channel = tl.arange(0, RAW)
    inside = (pixel < pixels)[:, None] & (channel < raw)[None, :]
    return pixel, channel, pixel[:, None] * pixel_stride + channel[None, :] * channel_stride, inside


@triton.jit
def unit_of(total, squares, pixels, relative_floor, FLAT: tl.constexpr):
    """Return mean, 1/σ and the floor of the block variances of each map, from its sums over the pixels."""
    mean = total / pixels
    variance = squares / pixels - mean * mean
    unit = tl.where(variance > 4e-6 * squares / pixels, tl.rsqrt(tl.maximum(variance, 1e-37)), 0.0)
    return mean, unit, tl.maximum(relative_floor * mean * mean, FLAT * FLAT * variance) * unit * unit


@triton.jit
def centre_maps(
    maps,
    x,
    floor,
    relative_floor,
    pixels,
    raw,
    image_stride,
    channel_stride,
    pixel_stride,
    SUMMED: tl.constexpr,
    STEP: tl.constexpr,
    RAW: tl.constexpr,
    CHANNELS: tl.constexpr,
    BOTH: tl.constexpr,
    FLAT: tl.constexpr,
):
    """Rectify one image's maps, subtract their mean and divide by their σ: → x (n, h·w, CHANNELS), floor (n, CHANNELS).

    With BOTH, the negative parts of the ``raw`` maps follow the positive ones as more channels. A correlation does not
    depend on a map's unit, and half precision is most accurate near 1. ``floor`` is the variance, in this unit, below
    which a block is flat. Each thread has sums of its own, over every SUMMED-th pixel, until the end.
    """
    image = tl.program_id(0).to(tl.int64)
    maps += image * image_stride
    x += image * pixels * CHANNELS
    floor += image * CHANNELS
    total = tl.zeros((SUMMED, RAW), tl.float32)
    squares = tl.zeros((SUMMED, RAW), tl.float32)
    total_below = tl.zeros((SUMMED, RAW), tl.float32)
    squares_below = tl.zeros((SUMMED, RAW), tl.float32)
    for start in range(0, pixels, SUMMED):
        pixel, channel, places, inside = tile_places(start, pixels, raw, channel_stride, pixel_stride, SUMMED, RAW)
        value = tl.load(maps + places, mask=inside, other=0.0).to(tl.float32)
        above = tl.maximum(value, 0.0)
        total += above
        squares += above * above
        if BOTH:
            below = above - value
            total_below += below
            squares_below += below * below
    channel = tl.arange(0, RAW)
    mean, unit, least = unit_of(tl.sum(total, 0), tl.sum(squares, 0), pixels, relative_floor, FLAT)
    sums_below = tl.sum(total_below, 0), tl.sum(squares_below, 0)
    mean_below, unit_below, least_below = unit_of(sums_below[0], sums_below[1], pixels, relative_floor, FLAT)
    if BOTH:
        tl.store(floor + channel, least, mask=channel < raw)
        tl.store(floor + raw + channel, least_below, mask=channel < raw)
    else:
        tl.store(floor + channel, least)
    for start in range(0, pixels, STEP):
        pixel, channel, places, inside = tile_places(start, pixels, raw, channel_stride, pixel_stride, STEP, RAW)
        value = tl.load(maps + places, mask=inside, other=0.0).to(tl.float32)
        above = tl.maximum(value, 0.0)
        to = x + pixel[:, None] * CHANNELS + channel[None, :]
        scaled = (above - mean[None, :]) * unit[None, :]
        if BOTH:
            tl.store(to, scaled, mask=inside)
            tl.store(to + raw, (above - value - mean_below[None, :]) * unit_below[None, :], mask=inside)
            further = tl.arange(0, CHANNELS)
            empty = (pixel < pixels)[:, None] & (further >= 2 * raw)[None, :]
            nothing = tl.zeros((STEP, CHANNELS), tl.float32)
            tl.store(x + pixel[:, None] * CHANNELS + further[None, :], nothing, mask=empty)
        else:
            tl.store(to, tl.where((channel < raw)[None, :], scaled, 0.0), mask=(pixel < pixels)[:, None])


@triton.jit
def block_scales(
    x,  # (n, h, w, CHANNELS), rectified and centred
    floor,  # (n, CHANNELS): variance below which a block is flat
    scales,  # (n, block rows, block columns, 2, CHANNELS)
    h,
    w,
    d,
    block_rows,
    block_columns,
    BLOCK_H: tl.constexpr,
    BLOCK_W: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    COLUMNS: tl.constexpr,
    STARTS: tl.constexpr,
    PART: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """Compute 1/σ and mean/σ of each block, PART channels of one image per program.

    The rows slide: sums over BLOCK_H pixels of each column gain a row and lose one. For each row of blocks, a product
    with a 0/1 matrix adds up BLOCK_W columns from the start of each block.
    """
    image = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * PART + tl.arange(0, PART)
    column = tl.arange(0, COLUMNS)
    start = tl.arange(0, STARTS)
    place = column[:, None] * CHANNELS + channel[None, :]
    inside = (column < w)[:, None]
    x += image * h * w * CHANNELS
    scales += image * block_rows * block_columns * 2 * CHANNELS
    least = tl.load(floor + image * CHANNELS + channel, mask=channel < d, other=0.0)[None, :]
    reach = column[None, :] - start[:, None] * STRIDE_W
    covered = ((reach >= 0) & (reach < BLOCK_W)).to(tl.float32)  # (STARTS, COLUMNS)
    total = tl.zeros((COLUMNS, PART), tl.float32)
    squares = tl.zeros((COLUMNS, PART), tl.float32)
    for row in range(h):
        value = tl.load(x + row * w * CHANNELS + place, mask=inside, other=0.0).to(tl.float32)
        lost = tl.load(x + (row - BLOCK_H) * w * CHANNELS + place, mask=inside & (row >= BLOCK_H), other=0.0)
        lost = lost.to(tl.float32)
        total += value - lost
        squares += value * value - lost * lost
        top = row - BLOCK_H + 1
        if (top >= 0) & (top % STRIDE_H == 0) & (top // STRIDE_H < block_rows):
            mean = tl.dot(covered, total, input_precision="tf32x3") / (BLOCK_H * BLOCK_W)
            square = tl.dot(covered, squares, input_precision="tf32x3") / (BLOCK_H * BLOCK_W)
            variance = square - mean * mean
            alive = (variance > tl.maximum(32 * 1.2e-7 * square, least)) & (variance > 0)
            scale = tl.where(alive, tl.rsqrt(tl.maximum(variance, 1e-37)), 0.0)
            block = (top // STRIDE_H) * block_columns + start
            to = scales + block[:, None] * 2 * CHANNELS + channel[None, :]
            tl.store(to, scale, mask=(start < block_columns)[:, None])
            tl.store(to + CHANNELS, mean * scale, mask=(start < block_columns)[:, None])


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
    features,  # (n, cells, pairs), ``stride`` numbers from one image to the next
    stride,
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
    features += image * stride
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
