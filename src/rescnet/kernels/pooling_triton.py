"""The Triton programs behind ``kernels.pooling``, which tells what they compute and why."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def centre_maps(
    maps, x, centre, pixels, d, image_stride, channel_stride, pixel_stride, STEP: tl.constexpr, CHANNELS: tl.constexpr
):
    """Rectify one image's maps and take their mean off: maps in any layout → x (n, h·w, CHANNELS), centre."""
    image = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, CHANNELS)
    maps += image * image_stride
    x += image * pixels * CHANNELS
    total = tl.zeros((CHANNELS,), tl.float32)
    for start in range(0, pixels, STEP):
        pixel = start + tl.arange(0, STEP)
        inside = (pixel < pixels)[:, None] & (channel < d)[None, :]
        places = pixel[:, None] * pixel_stride + channel[None, :] * channel_stride
        value = tl.load(maps + places, mask=inside, other=0.0)
        total += tl.sum(tl.maximum(value.to(tl.float32), 0.0), 0)
    mean = total / pixels
    tl.store(centre + image * CHANNELS + channel, mean)
    for start in range(0, pixels, STEP):
        pixel = start + tl.arange(0, STEP)
        inside = (pixel < pixels)[:, None] & (channel < d)[None, :]
        places = pixel[:, None] * pixel_stride + channel[None, :] * channel_stride
        value = tl.load(maps + places, mask=inside, other=0.0)
        value = tl.where((channel < d)[None, :], tl.maximum(value.to(tl.float32), 0.0) - mean[None, :], 0.0)
        tl.store(x + pixel[:, None] * CHANNELS + channel[None, :], value, mask=(pixel < pixels)[:, None])


@triton.jit
def _tile(x, pixel, w, PIXELS: tl.constexpr, WIDTH: tl.constexpr, USED: tl.constexpr, CHANNELS: tl.constexpr):
    """Load USED pixels, WIDTH columns from the pixel given downwards, all channels: (PIXELS, CHANNELS)."""
    k = tl.arange(0, PIXELS)
    channel = tl.arange(0, CHANNELS)
    place = pixel + (k // WIDTH) * w + k % WIDTH
    return tl.load(x + place[:, None] * CHANNELS + channel[None, :], mask=(k < USED)[:, None], other=0.0)


@triton.jit
def pool_atoms(
    x,  # (n, h, w, CHANNELS), rectified and centred
    centre,  # (n, CHANNELS)
    pooled,  # (n, atom rows, atom columns, pairs)
    row_cuts,
    column_cuts,
    relative_floor,
    pixels,  # h·w
    w,
    d,
    atom_rows,
    atom_columns,
    pairs,
    BLOCK_H: tl.constexpr,
    BLOCK_W: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    WIDTH: tl.constexpr,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
    SLIDES: tl.constexpr,
    WHOLE_BLOCK: tl.constexpr,
    DIAGONAL: tl.constexpr,
    MAXIMUM: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Reduce the normalised block covariances of one image over one atom."""
    program = tl.program_id(0)
    image = (program // (atom_rows * atom_columns)).to(tl.int64)
    atom = program % (atom_rows * atom_columns)
    top = tl.load(row_cuts + atom // atom_columns)
    bottom = tl.load(row_cuts + atom // atom_columns + 1)
    left = tl.load(column_cuts + atom % atom_columns)
    right = tl.load(column_cuts + atom % atom_columns + 1)
    x += image * pixels * CHANNELS
    channel = tl.arange(0, CHANNELS)
    real = channel < d
    mean_map = tl.load(centre + image * CHANNELS + channel)
    floor = relative_floor * mean_map * mean_map
    inverse = 1.0 / (BLOCK_H * BLOCK_W)
    USED: tl.constexpr = BLOCK_H * WIDTH

    best = tl.full((CHANNELS, CHANNELS), float("-inf") if MAXIMUM else 0.0, tl.float32)
    for row in range(top, bottom):
        products = tl.zeros((CHANNELS, CHANNELS), tl.float32)
        total = tl.zeros((CHANNELS,), tl.float32)
        squares = tl.zeros((CHANNELS,), tl.float32)
        for column in range(left, right):
            corner = row * STRIDE_H * w + column * STRIDE_W
            fresh = column == left
            if not SLIDES:
                fresh = True
            if fresh:
                products = tl.zeros((CHANNELS, CHANNELS), tl.float32)
                total = tl.zeros((CHANNELS,), tl.float32)
                squares = tl.zeros((CHANNELS,), tl.float32)
                for step in range(BLOCK_W // WIDTH):
                    tile = _tile(x, corner + step * WIDTH, w, PIXELS, WIDTH, USED, CHANNELS)
                    products = tl.dot(tl.trans(tile), tile, products, input_precision=PRECISION)
                    wide = tile.to(tl.float32)
                    total += tl.sum(wide, 0)
                    squares += tl.sum(wide * wide, 0)
            else:
                for step in range(STRIDE_W // WIDTH):
                    gained = _tile(x, corner + BLOCK_W - STRIDE_W + step * WIDTH, w, PIXELS, WIDTH, USED, CHANNELS)
                    lost = _tile(x, corner - STRIDE_W + step * WIDTH, w, PIXELS, WIDTH, USED, CHANNELS)
                    products = tl.dot(tl.trans(gained), gained, products, input_precision=PRECISION)
                    products = tl.dot(tl.trans(-lost), lost, products, input_precision=PRECISION)
                    wide = gained.to(tl.float32)
                    gone = lost.to(tl.float32)
                    total += tl.sum(wide, 0) - tl.sum(gone, 0)
                    squares += tl.sum(wide * wide, 0) - tl.sum(gone * gone, 0)
            mean = total * inverse
            square = squares * inverse
            variance = square - mean * mean
            alive = (variance > 32 * 1.2e-7 * square + floor) & real
            if WHOLE_BLOCK:
                variance = tl.where(alive, variance, 0.0)
                level = tl.where(real, mean + mean_map, 0.0)
                average = tl.sum(level, 0) / d
                between = tl.sum(tl.where(real, (level - average) * (level - average), 0.0), 0) / d
                spread = tl.sum(variance, 0) / d + between
                scale = tl.where(alive, 1.0, 0.0) * tl.where(spread > 0, tl.rsqrt(tl.maximum(spread, 1e-37)), 0.0)
            else:
                scale = tl.where(alive, tl.rsqrt(tl.maximum(variance, 1e-37)), 0.0)
            scaled_mean = mean * scale
            value = products * inverse * scale[:, None] * scale[None, :]
            value -= scaled_mean[:, None] * scaled_mean[None, :]
            if MAXIMUM:
                best = tl.maximum(best, value)
            else:
                best += value
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
