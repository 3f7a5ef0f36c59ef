"""Pictures in the report: PNG data URIs from arrays, and drawings of the filters.

Filters of the first layer are drawn as small images; deeper ones by the inputs they weight most.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config.grammars import parse_mixture, share_out
from ..network.network import Network
from ..network.stack import Layer

Pixels = NDArray[np.uint8]
"""(h, w) grey or (h, w, 3) colour."""

# Blue for negative, white for zero, vermilion for positive: distinct for every kind of colour vision.
NEGATIVE, ZERO, POSITIVE = np.array([0, 90, 170.0]), np.array([250, 250, 250.0]), np.array([200, 75, 0.0])
STRONGEST = 4  # input channels drawn per deeper filter
SHORT_NAMES = {"red": "R", "green": "G", "blue": "B", "the image": "I"}
MEANINGS = {
    "pca": "PCA: directions of greatest variance of the patches, regardless of class",
    "stacked-lda": "stacked-LDA: directions that separate a few patches of one class from those of others",
}


def data_uri(pixels: Pixels) -> str:
    """Return a picture as a ``data:image/png`` URI.

    Examples
    --------
    >>> data_uri(np.zeros((2, 2), np.uint8))[:22]
    'data:image/png;base64,'
    """
    height, width = pixels.shape[:2]
    colour_type = 2 if pixels.ndim == 3 else 0
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    unfiltered = np.pad(rows, ((0, 0), (1, 0)))  # each row starts with its filter type: 0, none
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    body = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(unfiltered.tobytes(), 9)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def thumbnail(image: NDArray[Any], low: float, high: float, max_side: int = 128) -> Pixels:
    """Return an image (c, h, w) as pixels, reduced by a whole factor if a side is longer than ``max_side``.

    uint8 is not scaled. For other types ``low`` is black and ``high`` is white.
    """
    values = image.astype(np.float64)
    if image.dtype != np.uint8:
        values = 255 * (values - low) / ((high - low) or 1.0)
    factor = -(-max(values.shape[1:]) // max_side)
    if factor > 1:
        c, h, w = values.shape[0], values.shape[1] // factor, values.shape[2] // factor
        values = values[:, : h * factor, : w * factor].reshape(c, h, factor, w, factor).mean((2, 4))
    pixels = np.rint(values).clip(0, 255).astype(np.uint8)
    return pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)


def diverging(values: NDArray[Any], limit: float) -> Pixels:
    """Colour signed values (h, w): blue at ``-limit``, white at 0, vermilion at ``limit``. Returns (h, w, 3)."""
    share = (np.asarray(values, np.float64) / (limit or 1.0)).clip(-1, 1)[..., None]
    colours = np.where(share < 0, ZERO + share * (ZERO - NEGATIVE), ZERO + share * (POSITIVE - ZERO))
    pixels: Pixels = np.rint(colours).astype(np.uint8)
    return pixels


def stretched(values: NDArray[Any]) -> Pixels:
    """Scale values (h, w) to grey pixels: zero and less is black, and the maximum is white."""
    values = np.asarray(values, np.float64).clip(0)
    pixels: Pixels = np.rint(255 * values / (values.max() or 1.0)).astype(np.uint8)
    return pixels


def draw_filters(network: Network) -> list[dict[str, Any]]:
    """Draw the filters of the first, second, middle and last layer, by bank."""
    layers = len(network.layers)
    drawn = sorted({1, min(2, layers), (layers + 1) // 2, layers})
    return [_draw_layer(network, number, network.layers[number - 1]) for number in drawn]


def input_names(network: Network, layer: int) -> list[str]:
    """Name a layer's input channels: the maps of the previous layer, then the channels of the image."""
    channels = network.image_shape[0]
    image = ["red", "green", "blue"] if channels == 3 else ["the image"] if channels == 1 else []
    image = image or [f"image channel {number}" for number in range(1, channels + 1)]
    maps = network.layers[layer - 1].weights.shape[1] - channels
    return [f"map {number}" for number in range(1, maps + 1)] + image


def banks_of(bank: str, filters: int) -> list[tuple[str, int]]:
    """Return the name and number of filters of each bank, in the order of the filters.

    Examples
    --------
    >>> banks_of("pca + stacked-lda", 25)
    [('pca', 13), ('stacked-lda', 12)]
    """
    parts = parse_mixture(bank)
    counts = share_out(filters, [weight for weight, _ in parts])
    return [(name, count) for (_, name), count in zip(parts, counts, strict=True) if count]


def _draw_layer(network: Network, number: int, layer: Layer) -> dict[str, Any]:
    weights = layer.weights.detach().double().cpu().numpy()  # (d_i, c, k, k)
    names = input_names(network, number)
    as_image = not network.stack.sees_maps(layer) and weights.shape[1] in (1, 3)
    groups, start = [], 0
    for bank, count in banks_of(network.config.bank_of(number), len(weights)):
        tiles = [
            _image_tile(weights[index], index) if as_image else _slices_tile(weights[index], index, names)
            for index in range(start, start + count)
        ]
        groups.append({"bank": bank, "meaning": MEANINGS.get(bank, f"the {bank} bank"), "tiles": tiles})
        start += count
    drawn = {"layer": number, "shape": list(weights.shape), "as_image": as_image, "groups": groups}
    if not as_image:
        norms = np.sqrt(np.square(weights).sum((2, 3)))  # (d_i, c)
        maps = len(names) - network.image_shape[0]
        drawn["input_weights"] = {
            "picture": data_uri(diverging(-norms, float(norms.max()))),  # white to dark blue
            "image_share": float(np.square(norms[:, maps:]).sum() / (np.square(norms).sum() or 1.0)),
        }
    return drawn


def _image_tile(weights: NDArray[np.float64], index: int) -> dict[str, str]:
    """Draw a filter (c, k, k) of the image: mid-grey is zero, and each filter uses the whole range."""
    limit = float(np.abs(weights).max()) or 1.0
    pixels = np.rint(127.5 + 127.5 * weights / limit).astype(np.uint8)
    picture = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    return {"picture": data_uri(picture), "caption": f"filter {index + 1}"}


def _slices_tile(weights: NDArray[np.float64], index: int, names: Sequence[str]) -> dict[str, Any]:
    """Draw the k×k slices of a filter (c, k, k) on its strongest inputs, side by side."""
    norms = np.sqrt(np.square(weights).sum((1, 2)))
    strongest = np.argsort(-norms, kind="stable")[:STRONGEST]
    inputs = ", ".join(f"{names[channel]} ({norms[channel]:.2f})" for channel in strongest)
    limit = float(np.abs(weights[strongest]).max())
    return {
        "picture": data_uri(_side_by_side([diverging(weights[channel], limit) for channel in strongest])),
        "caption": f"filter {index + 1}, strongest on {inputs}",
        "inputs": [SHORT_NAMES.get(names[channel], names[channel].split()[-1]) for channel in strongest],
    }


def _side_by_side(tiles: Sequence[Pixels], scale: int = 6, gap: int = 3) -> Pixels:
    """Join small pictures (h, w, 3), enlarged without smoothing, with a grey gap between them."""
    large = [tile.repeat(scale, 0).repeat(scale, 1) for tile in tiles]
    space = np.full((large[0].shape[0], gap, 3), 190, np.uint8)
    return np.concatenate([part for tile in large for part in (space, tile)][1:], axis=1)
