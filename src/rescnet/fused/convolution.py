"""Stages 1 and 4 in one Triton kernel: an implicit product over the k×k offsets of a filter, in half precision.

One program computes up to 128 filters at a tile of consecutive pixels. For each offset it multiplies the maps there by
the filters' weights at this offset. The image has few channels, so those of all offsets are gathered into one product.
Maps and images are read in place: no ``[maps ; image]``, no border and no scaled input is written. Images are scaled
as they are read.

The scaled input ``(raw - low)·scale`` is zero outside the image. So is the value that is read there, and ``low`` is
subtracted by the bias: the weights of the offsets inside the image, times ``low``. Such a bias depends on the pixel
only near the border. Rows have k kinds, the first ones, the middle and the last ones, and so have columns. So there is
one bias for each of k·k kinds of pixel.

Each program also finds the range of the maps it writes, so that no pass over them is needed for the next scaling.

A CIFAR-10 layer that sees maps (50 + 3 channels, 50 filters, both padded to 64) takes 80 MFLOP per image on tensor
cores, and reads and writes 0.2 MB. A copy of its input would write another 0.15 MB.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..stages.images import ValueRange
from .half_precision import FoldedScale, padded_channels

TILE, LARGE = 128, 256  # pixels per program; the large tile is a tenth faster where it divides an image
MOST_READ, MOST_WRITTEN = 64, 128  # channels per product: of the maps, and filters
GATHERED = 32  # pairs of offset and image channel per product
STAGES = {TILE: 3, LARGE: 2}


class FusedConvolution:
    """Filters (d, c, k, k) and bias (d,) of a layer, prepared for the kernel, with the scaling folded in.

    The last of the c channels are those of the image, which is first scaled by ``image``, the others are maps. The
    image must have at least k - 1 rows and columns.
    """

    def __init__(self, folded: FoldedScale, weights: Tensor, bias: Tensor, image: FoldedScale) -> None:
        self.filters, channels, k, _ = weights.shape
        self.size, self.colours = k, len(image.low)
        self.maps = maps = channels - self.colours
        self._scaling = torch.stack([image.low, image.scale])
        self.written = min(MOST_WRITTEN, max(16, triton.next_power_of_2(self.filters)))
        self.padded = triton.cdiv(self.filters, self.written) * self.written
        self.read = min(MOST_READ, max(16, triton.next_power_of_2(maps)))
        self.blocks = triton.cdiv(maps, self.read)
        rounded = (weights.float() * folded.scale[:, None, None]).half()
        by_offset = rounded.permute(2, 3, 1, 0).flatten(0, 1)  # (k·k, c, d)
        self._of_maps = rounded.new_zeros(k * k, self.blocks * self.read, self.padded)
        self._of_maps[:, :maps, : self.filters] = by_offset[:, :maps]
        pairs = k * k * self.colours
        self._of_images = rounded.new_zeros(triton.cdiv(pairs, GATHERED) * GATHERED, self.padded)
        self._of_images[:pairs, : self.filters] = by_offset[:, maps:].flatten(0, 1)
        self._bias = torch.zeros(k * k, self.padded, device=weights.device)
        self._bias[:, : self.filters] = (bias.double() - _sum_inside(rounded, folded.low)).flatten(0, 1)

    def __call__(self, maps: Tensor | None, images: Tensor) -> tuple[Tensor, ValueRange]:
        """Return ``scale([maps ; image]) ∗ W + B`` (n, d, h, w), channels last, and its range.

        Maps (n, d_i, h, w) in half precision, or None, and images (n, c - d_i, h, w) of any type have any strides. If
        the channels of each pixel are followed by some that make them a multiple of 8, these are read as well, 16 bytes
        at a time. They may hold any finite number. In the result they are zero.
        """
        n, _, h, w = images.shape
        tile = tile_for(self.written, h * w)
        tiles = triton.cdiv(n * h * w, tile)
        stored = padded_channels(self.filters)
        out = self._of_images.new_empty(n, h, w, stored)
        ends = self._of_images.new_empty(2, tiles, self.padded)
        given, readable = images if maps is None else maps, self.maps
        if (given.stride(1), given.stride(3)) == (1, padded_channels(self.maps)):
            readable = padded_channels(self.maps)
        convolve_tile[(tiles, self.padded // self.written)](
            *(given, images, self._scaling, self._of_maps, self._of_images, self._bias, out, ends, n * h * w, tiles),
            *(h, w, self.size, readable, self.colours, stored, self.padded),
            *(*given.stride(), *images.stride()),
            BLOCKS=self.blocks,
            READ=self.read,
            WRITTEN=self.written,
            GATHERED=GATHERED,
            TILE=tile,
            num_warps=4,
            num_stages=STAGES[tile],
        )
        range_of_tiles = ends[:, :, : self.filters]
        return out.permute(0, 3, 1, 2)[:, : self.filters], ValueRange(
            range_of_tiles[0].amin(0), range_of_tiles[1].amax(0)
        )


def tile_for(written: int, pixels: int) -> int:
    """Return the pixels per program, for the filters per program and the pixels of an image."""
    return LARGE if written == 64 and pixels % LARGE == 0 else TILE


def _sum_inside(weights: Tensor, low: Tensor) -> Tensor:
    """Return Σ W·low over the offsets inside the image, for each kind of pixel, float64, shape (k, k, d).

    Rows and columns have k kinds: (k-1)//2 first ones, the middle, and k//2 last ones. Kind r sees offset o of a filter
    inside the image if r + o is at least (k-1)//2 and less than k more.
    """
    k = weights.shape[-1]
    shifted = (weights.double() * low.double()[:, None, None]).sum(1)  # (d, k, k)
    place = torch.arange(k, device=weights.device)
    reach = place + place[:, None] - (k - 1) // 2
    inside = ((reach >= 0) & (reach < k)).double()  # symmetric
    return (inside @ shifted @ inside).permute(1, 2, 0)


@triton.jit
def places_of(first, H: tl.constexpr, W: tl.constexpr, TILE: tl.constexpr):
    """Return the numbers 0 to TILE - 1, and image, row and column of the pixels with these numbers after ``first``."""
    number = tl.arange(0, TILE)
    within = (first % (H * W)).to(tl.int32) + number
    return number, first // (H * W) + within // (H * W), (within % (H * W)) // W, within % W


@triton.jit
def scaled(x, low, scale, inside):
    """Return scaled numbers of images in half precision, zero outside."""
    return tl.where(inside, (x.to(tl.float32) - low) * scale, 0.0).to(tl.float16)


@triton.jit
def kind_of(line, lines: tl.constexpr, SIZE: tl.constexpr):
    """Return the kind of each row or column: its place among the first or last ones, or (SIZE - 1)//2."""
    before: tl.constexpr = (SIZE - 1) // 2
    return tl.minimum(line, before) + tl.maximum(line - (lines - 1 - SIZE // 2), 0)


@triton.jit(do_not_specialize=["pixels", "tiles"])
def convolve_tile(
    maps,  # (n, MAPS, H, W), strides MAP_N to MAP_W; the last ones may count nothing
    images,  # (n, COLOURS, H, W), strides IMAGE_N to IMAGE_W
    scaling,  # (2, COLOURS): low end and scale of the image
    of_maps,  # weights, (SIZE·SIZE, BLOCKS·READ, PADDED): offset, channel, filter
    of_images,  # weights, (SIZE·SIZE·COLOURS rounded up, PADDED): offset and channel, filter
    bias,  # (SIZE·SIZE, PADDED), by kind of pixel
    out,  # (n·H·W, FILTERS); the last ones may be zero
    ends,  # (2, tiles, PADDED): smallest and largest value of each tile
    pixels,  # n·H·W
    tiles,
    H: tl.constexpr,
    W: tl.constexpr,
    SIZE: tl.constexpr,
    MAPS: tl.constexpr,
    COLOURS: tl.constexpr,
    FILTERS: tl.constexpr,
    PADDED: tl.constexpr,
    MAP_N: tl.constexpr,  # strides are constants, so that the compiler knows how many channels it may load at once
    MAP_C: tl.constexpr,
    MAP_H: tl.constexpr,
    MAP_W: tl.constexpr,
    IMAGE_N: tl.constexpr,
    IMAGE_C: tl.constexpr,
    IMAGE_H: tl.constexpr,
    IMAGE_W: tl.constexpr,
    BLOCKS: tl.constexpr,  # of READ maps
    READ: tl.constexpr,
    WRITTEN: tl.constexpr,
    GATHERED: tl.constexpr,
    TILE: tl.constexpr,
):
    """Compute WRITTEN filters at TILE consecutive pixels."""
    BEFORE: tl.constexpr = (SIZE - 1) // 2
    PAIRS: tl.constexpr = SIZE * SIZE * COLOURS
    tile = tl.program_id(0).to(tl.int64)
    first = tile * TILE
    number, image, row, column = places_of(first, H, W, TILE)
    alive = first + number < pixels
    filter = tl.program_id(1) * WRITTEN + tl.arange(0, WRITTEN)
    total = tl.zeros((TILE, WRITTEN), tl.float32)

    place = image * IMAGE_N + row * IMAGE_H + column * IMAGE_W
    for start in range(0, PAIRS, GATHERED):
        pair = start + tl.arange(0, GATHERED)
        offset = pair // COLOURS
        down = offset // SIZE - BEFORE
        right = offset % SIZE - BEFORE
        colour = pair % COLOURS
        further = down * IMAGE_H + right * IMAGE_W + colour * IMAGE_C
        # Pixels last: neighbouring threads load neighbouring pixels.
        below = row[None, :] + down[:, None]
        beside = column[None, :] + right[:, None]
        inside = (below >= 0) & (below < H) & (beside >= 0) & (beside < W)
        inside = inside & alive[None, :] & (pair < PAIRS)[:, None]
        x = tl.load(images + (place[None, :] + further[:, None]), mask=inside, other=0)
        x = scaled(x, tl.load(scaling + colour)[:, None], tl.load(scaling + COLOURS + colour)[:, None], inside)
        part = tl.load(of_images + pair[:, None] * PADDED + filter[None, :])
        total = tl.dot(tl.trans(x), part, total)

    if MAPS > 0:
        place = image * MAP_N + row * MAP_H + column * MAP_W
        for step in range(SIZE * SIZE * BLOCKS):
            offset = step // BLOCKS
            down = offset // SIZE - BEFORE
            right = offset % SIZE - BEFORE
            channel = (step % BLOCKS) * READ + tl.arange(0, READ)
            inside = alive & (row + down >= 0) & (row + down < H) & (column + right >= 0) & (column + right < W)
            further = place + (down * MAP_H + right * MAP_W)
            x = tl.load(
                maps + further[:, None] + channel[None, :] * MAP_C,
                mask=inside[:, None] & (channel < MAPS)[None, :],
                other=0.0,
            )
            line = step * READ + tl.arange(0, READ)
            part = tl.load(of_maps + line[:, None] * PADDED + filter[None, :])
            total = tl.dot(x, part, total)

    kind = kind_of(row, H, SIZE) * SIZE + kind_of(column, W, SIZE)
    total += tl.load(bias + kind[:, None] * PADDED + filter[None, :])
    found = total.to(tl.float16)
    to = out + (first + number)[:, None] * FILTERS + filter[None, :]
    tl.store(to, found, mask=alive[:, None] & (filter < FILTERS)[None, :])
    value = found.to(tl.float32)
    low = tl.min(tl.where(alive[:, None], value, float("inf")), 0)
    high = tl.max(tl.where(alive[:, None], value, float("-inf")), 0)
    tl.store(ends + tile * PADDED + filter, low.to(tl.float16))
    tl.store(ends + (tiles + tile) * PADDED + filter, high.to(tl.float16))
