"""Filters as pictures: the first layer's as small images, deeper ones by the inputs they listen to most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config.banks import parse_mixture, share_out
from ..network.layer import Layer
from ..network.network import Network
from .png import Pixels, data_uri, diverging, heat

STRONGEST = 4  # input channels drawn of a deeper filter
SHORT = {"red": "R", "green": "G", "blue": "B", "the image": "I"}
MEANINGS = {
    "pca": "PCA: directions in which patches vary most, whatever their class",
    "stacked-lda": "stacked-LDA: directions that told a few patches of one class from those of others",
}


def layers_to_draw(layers: int, asked: Sequence[int] | None) -> list[int]:
    """Return the layers asked for, checked; else the first, second, middle and last.

    Examples
    --------
    >>> layers_to_draw(12, None)
    [1, 2, 6, 12]
    """
    if asked is None:
        return sorted({1, min(2, layers), (layers + 1) // 2, layers})
    for layer in asked:
        if not 1 <= layer <= layers:
            raise ValueError(
                f"filters of layer {layer} were asked for but there are {layers} layers: choose 1 to that."
            )
    return sorted(set(asked))


def draw_layers(network: Network, layers: Sequence[int]) -> list[dict[str, Any]]:
    """Draw the filters of some layers, counted from 1, bank by bank."""
    return [_draw_layer(network, number, network.layers[number - 1]) for number in layers]


def input_names(network: Network, layer: int) -> list[str]:
    """Name a layer's input channels: the maps of the layer before, then the image's own channels."""
    channels = network.image_shape[0]
    image = ["red", "green", "blue"] if channels == 3 else ["the image"] if channels == 1 else []
    image = image or [f"image channel {number}" for number in range(1, channels + 1)]
    maps = network.layers[layer - 1].weights.shape[1] - channels
    return [f"map {number}" for number in range(1, maps + 1)] + image


def banks_of(bank: str, filters: int) -> list[tuple[str, int]]:
    """Return each bank's name and number of filters, in the order in which they lie.

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
        tiles = []
        for place in range(start, start + count):
            tiles.append(_image_tile(weights[place], place) if as_image else _slices_tile(weights[place], place, names))
        groups.append({"bank": bank, "meaning": MEANINGS.get(bank, f"the {bank} bank"), "tiles": tiles})
        start += count
    drawn = {"layer": number, "shape": list(weights.shape), "as_image": as_image, "groups": groups}
    if not as_image:
        norms = np.sqrt(np.square(weights).sum((2, 3)))  # (d_i, c)
        maps = len(names) - network.image_shape[0]
        drawn["reading"] = {
            "picture": data_uri(heat(norms, float(norms.max()))),
            "image_share": float(np.square(norms[:, maps:]).sum() / (np.square(norms).sum() or 1.0)),
        }
    return drawn


def _image_tile(weights: NDArray[np.float64], place: int) -> dict[str, str]:
    """Draw a filter (c, k, k) on the image itself: mid-grey is zero, each filter fills the range."""
    limit = float(np.abs(weights).max()) or 1.0
    pixels = np.rint(127.5 + 127.5 * weights / limit).astype(np.uint8)
    picture = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    return {"picture": data_uri(picture), "words": f"filter {place + 1}"}


def _slices_tile(weights: NDArray[np.float64], place: int, names: Sequence[str]) -> dict[str, Any]:
    """Draw the k×k slices of a filter (c, k, k) on the inputs where it is strongest, side by side."""
    norms = np.sqrt(np.square(weights).sum((1, 2)))
    strongest = np.argsort(-norms, kind="stable")[:STRONGEST]
    words = ", ".join(f"{names[channel]} ({norms[channel]:.2f})" for channel in strongest)
    limit = float(np.abs(weights[strongest]).max())
    return {
        "picture": data_uri(_side_by_side([diverging(weights[channel], limit) for channel in strongest])),
        "words": f"filter {place + 1}, strongest on {words}",
        "inputs": [SHORT.get(names[channel], names[channel].split()[-1]) for channel in strongest],
    }


def _side_by_side(tiles: Sequence[Pixels], scale: int = 6, gap: int = 3) -> Pixels:
    """Join small pictures (h, w, 3), enlarged without smoothing, with a grey gap between them."""
    large = [tile.repeat(scale, 0).repeat(scale, 1) for tile in tiles]
    space = np.full((large[0].shape[0], gap, 3), 190, np.uint8)
    return np.concatenate([part for tile in large for part in (space, tile)][1:], axis=1)
