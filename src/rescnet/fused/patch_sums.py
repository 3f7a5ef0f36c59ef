"""Sums over all 3×3 patches from shifted products, without copying patches (stage 2).

The product of offsets a and b of a patch, summed over all patches, is a sum over pixels of x(q) x(q + δ)ᵀ with
δ = b - a. Offset pairs with the same δ differ only near the border: patches lie inside the image, so offset a covers
all rows except the first a and the last 2 - a. Therefore the image is divided into 5×5 zones: two rows, the middle and
two rows, and the same for columns. Products are summed per zone for 15 shifts δ; the other shifts are transposes. The
sum for a pair of offsets is the sum over the 3×3 zones that it covers. A channel of ones yields the sums of x.

For CIFAR-10 layers that see maps (56 channels, padded to 64, 50,000 images) this takes 6.3 TFLOP on tensor cores. The
product of copied patches takes 23 TFLOP and first writes 45 GB of patches.

:func:`fused_raw_input` writes the input of the sums, maps, image and a channel of ones side by side, in whole pixels.
:func:`rescnet.fused.half_precision.raw_input` fills the whole with zeros and then writes each part in strides.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..stages.patches import PatchMoments
from .convolution import places_of, scaled
from .half_precision import FoldedScale, padded_channels

SIZE = 3  # side of a patch in pixels
REACH = SIZE - 1
ZONES = 2 * REACH + 1  # along an axis
SHIFTS = (REACH + 1) * ZONES  # δ; the others are transposes
TILE = 64  # channels per program
LAUNCH = {"STEP": 32, "num_warps": 4, "num_stages": 3}
ITEMS = 256  # approximate number of programs that the pixels are divided among
JOINED = 8192  # numbers per program of join_tile


def zone_bytes(channels: int) -> int:
    """Return the bytes of the partial sums, in float32 and float64, and of the sums over zones, twice."""
    padded = -(-(channels + 1) // TILE) * TILE  # 65 channels take four times as much as 64
    items = ITEMS + ZONES**2
    return SHIFTS * padded**2 * (items * (4 + 8) + 2 * ZONES**2 * 8)


class PatchSums:
    """Sums over all 3×3 patches of images that are added chunk by chunk.

    Channel number ``channels`` of the added images must hold ones; those before it are the channels of a patch.
    """

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.count = 0
        self._zones: Tensor | None = None  # (5, 5, 3, 5, padded, padded): zone, shift, channel, channel

    def add(self, x: Tensor) -> None:
        """Add images ``x`` (n, h, w, c), half precision; c is a multiple of 8 and greater than ``channels``."""
        n, h, w, c = x.shape
        work, members = (table.to(x.device, non_blocking=True) for table in _share_out(n, h, w))
        padded = -(-c // TILE) * TILE
        partial = torch.empty(len(work), REACH + 1, ZONES, padded, padded, device=x.device)
        grid = len(work), REACH + 1, (padded // TILE) ** 2
        zone_products[grid](x, work, partial, h, w, CHANNELS=c, TILE=TILE, PADDED=padded, **LAUNCH)
        if self._zones is None:
            self._zones = partial.new_zeros(ZONES**2, *partial.shape[1:], dtype=torch.float64)
        # A product, not scattered additions: their order, and so the last bit, would differ from run to run.
        self._zones += (members @ partial.double().flatten(1)).view_as(self._zones)
        self.count += n * (h - REACH) * (w - REACH)

    def moments(self) -> PatchMoments:
        """Return the sums in the order of ``extract_patches``: channel, row, column."""
        assert self._zones is not None
        ones, used = self.channels, self.channels + 1
        zones = self._zones.view(ZONES, ZONES, *self._zones.shape[1:])[..., :used, :used]
        # Offset a covers the zones a to a + 2 of each axis: (3, 3, 3, 5, c, c), offset and shift.
        seen = zones.unfold(0, SIZE, 1).unfold(1, SIZE, 1).sum((-2, -1))
        offset = torch.arange(SIZE**2, device=zones.device)
        row, column = offset // SIZE, offset % SIZE
        down, right = row - row[:, None], column - column[:, None]  # (9, 9), δ from the first offset to the second
        back = (down < 0) | ((down == 0) & (right < 0))  # the transpose of the reversed pair
        first = torch.where(back, offset, offset[:, None])
        products = seen[first // SIZE, first % SIZE, down.abs(), torch.where(back, -right, right) + REACH]
        products = torch.where(back[..., None, None], products.mT, products)  # (9, 9, c, c)
        size = SIZE**2 * self.channels
        outer = products[..., :ones, :ones].permute(2, 0, 3, 1).reshape(size, size)
        # The sum at an offset is its product with the ones at the same offset.
        total = products.diagonal(dim1=0, dim2=1)[:ones, ones].flatten()
        return PatchMoments(self.count, total, outer)


@cache
def _share_out(n: int, h: int, w: int) -> tuple[Tensor, Tensor]:
    """Divide the pixels of each zone among programs; return ``work`` (items, 6) and 0/1 members (zones, items)."""
    work, zones = [], []
    share = max(LAUNCH["STEP"], -(-n * h * w // ITEMS))
    for index, (top, rows) in enumerate(_zones(h)):
        for further, (left, columns) in enumerate(_zones(w)):
            pixels = n * rows * columns
            for first in range(0, pixels, share):
                work.append((top, rows, left, columns, first, min(first + share, pixels)))
                zones.append(index * ZONES + further)
    members = torch.nn.functional.one_hot(torch.tensor(zones), ZONES**2).T.double()
    return torch.tensor(work, dtype=torch.int32), members


def _zones(length: int) -> list[tuple[int, int]]:
    """Return start and length of the zones along an axis: single border lines and the middle."""
    ends = [(line, 1) for line in range(REACH)]
    return [*ends, (REACH, length - 2 * REACH), *((length - REACH + line, 1) for line in range(REACH))]


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


def fused_raw_input(maps: Tensor | None, images: Tensor, image: FoldedScale) -> Tensor:
    """Return ``raw_input(maps, image(images))``, shape (n, h, w, channels); maps and images have any strides."""
    n, d, h, w = images.shape
    m = 0 if maps is None else maps.shape[1]
    channels = padded_channels(m + d + 1)
    read = triton.next_power_of_2(max(1, m))
    tile = max(1, JOINED // max(read, 64))
    x = torch.empty(n, h, w, channels, dtype=torch.float16, device=images.device)
    given, scaling = images if maps is None else maps, torch.stack([image.low, image.scale])
    join_tile[(triton.cdiv(n * h * w, tile),)](
        *(given, images, scaling, x, n * h * w, h, w, m, d, *given.stride(), *images.stride()),
        CHANNELS=channels,
        READ=read,
        REST=triton.next_power_of_2(channels - m),
        TILE=tile,
        num_warps=4,
    )
    return x


@triton.jit(do_not_specialize=["pixels"])
def join_tile(
    maps,  # (n, MAPS, H, W), strides MAP_N to MAP_W
    images,  # (n, COLOURS, H, W), strides IMAGE_N to IMAGE_W
    scaling,  # (2, COLOURS): low end and scale of the image
    x,  # (n·H·W, CHANNELS)
    pixels,  # n·H·W
    H: tl.constexpr,
    W: tl.constexpr,
    MAPS: tl.constexpr,
    COLOURS: tl.constexpr,
    MAP_N: tl.constexpr,
    MAP_C: tl.constexpr,
    MAP_H: tl.constexpr,
    MAP_W: tl.constexpr,
    IMAGE_N: tl.constexpr,
    IMAGE_C: tl.constexpr,
    IMAGE_H: tl.constexpr,
    IMAGE_W: tl.constexpr,
    CHANNELS: tl.constexpr,
    READ: tl.constexpr,
    REST: tl.constexpr,
    TILE: tl.constexpr,
):
    """Write all channels of TILE consecutive pixels."""
    first = tl.program_id(0).to(tl.int64) * TILE
    number, image, row, column = places_of(first, H, W, TILE)
    alive = (first + number < pixels)[:, None]
    to = x + (first + number)[:, None] * CHANNELS
    if MAPS > 0:
        channel = tl.arange(0, READ)[None, :]
        place = (image * MAP_N + row * MAP_H + column * MAP_W)[:, None] + channel * MAP_C
        value = tl.load(maps + place, mask=alive & (channel < MAPS), other=0.0)
        tl.store(to + channel, value, mask=alive & (channel < MAPS))
    colour = tl.arange(0, REST)[None, :]
    inside = alive & (colour < COLOURS)
    low = tl.load(scaling + colour, mask=colour < COLOURS, other=0.0)
    scale = tl.load(scaling + COLOURS + colour, mask=colour < COLOURS, other=0.0)
    place = (image * IMAGE_N + row * IMAGE_H + column * IMAGE_W)[:, None] + colour * IMAGE_C
    value = scaled(tl.load(images + place, mask=inside, other=0), low, scale, inside)
    value = tl.where(colour == COLOURS, 1.0, value.to(tl.float32)).to(tl.float16)
    tl.store(to + MAPS + colour, value, mask=alive & (colour < CHANNELS - MAPS))
