"""A trained model as data of the page: layers as base64 of float32 numbers, options by name, facts to show."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..formatting import count, show_bytes
from ..network.model import Model
from ..network.stack import Layer

MOST_BYTES = 64 * 2**20  # of all layers: a browser opens a page of this size in seconds
OPTIONS = (
    *("layers", "filters", "filter_size", "block_sizes", "block_stride", "pyramid", "pyramid_bins", "pooling"),
    *("rectifier", "matrix_root", "head", "posterior", "sigmoid_scale", "softmax_scale", "ridge", "ceiling"),
)


def model_data(model: Model) -> dict[str, Any]:
    """Return what the page needs to pass an image through the layers of a model, ready for JSON.

    The page shows the output of each layer's heads. A kernel readout and averages over test views are left out, and
    the page says so.

    Raises
    ------
    ValueError
        If the layers are too large for a page.
    """
    network = model.network.first_layers(model.network.used_layers)
    network = replace(network, readout=None)
    if network.nbytes > MOST_BYTES:
        raise ValueError(
            f"model must have at most {show_bytes(MOST_BYTES)} of layers to be shown in a page, got "
            f"{show_bytes(network.nbytes)}. Use --layers to show the first ones."
        )
    config, (channels, height, width) = network.config, network.image_shape
    left_out = ["kernel readout"] if model.network.readout else []
    left_out += ["average over test views"] if len(config.views) > 1 else []
    facts = [
        ("layers", str(len(network.layers))),
        ("filters", f"{config.filters} per layer, {config.bank}"),
        ("images", f"{height}×{width}, {'grey' if channels == 1 else count(channels, 'channel', 'channels')}"),
        ("classes", str(network.classes)),
        ("trained on", str(model.about.get("dataset") or "not recorded")),
    ]
    return {
        "config": {name: getattr(config, name) for name in OPTIONS},
        "shape": network.image_shape,
        "names": model.class_names,
        "layers": [_layer_data(layer) for layer in network.layers],
        "facts": facts + ([("left out here", ", ".join(left_out))] if left_out else []),
    }


def _layer_data(layer: Layer) -> dict[str, Any]:
    head = layer.head
    return {
        "low": _numbers(layer.input_range.low),
        "high": _numbers(layer.input_range.high),
        "weights": _numbers(layer.weights),
        "bias": _numbers(layer.bias),
        "size": layer.weights.shape[-1],
        "head": {
            "weights": _numbers(head.weights.T),
            "bias": _numbers(head.bias),
            "present": head.present.tolist(),
        },
        "rate": layer.rate,
        "positive_share": layer.positive_share,
    }


def _numbers(tensor: Tensor) -> str:
    values = tensor.detach().to("cpu", torch.float32).contiguous()
    return b64encode(values.numpy().astype("<f4").tobytes()).decode()
