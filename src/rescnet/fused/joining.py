"""Maps, image and a channel of ones side by side, written once by a Triton kernel, for the sums over patches.

:func:`rescnet.fused.half_precision.raw_input` fills the whole with zeros and then writes maps, image and ones, each
in strides. The kernel writes whole pixels, and scales images as it reads them.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .convolution import places_of, scaled
from .half_precision import FoldedScale, padded_channels

NUMBERS = 8192  # per program


def fused_raw_input(maps: Tensor | None, images: Tensor, image: FoldedScale) -> Tensor:
    """Return ``raw_input(maps, image(images))``, shape (n, h, w, channels); maps and images have any strides."""
    n, d, h, w = images.shape
    m = 0 if maps is None else maps.shape[1]
    channels = padded_channels(m + d + 1)
    read = triton.next_power_of_2(max(1, m))
    tile = max(1, NUMBERS // max(read, 64))
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
