"""A trained model as data of the page: layers as base64 of float32 numbers, options by name, facts to show."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import torch
from torch import Tensor

from ..base.errors import ConfigError
from ..base.text import count, show_bytes
from ..model import Model
from ..network.readout.kernel import KernelReadout, Quantised
from ..network.stack import Layer

MOST_BYTES = 64 * 2**20  # of all layers: a browser opens a page of this size in seconds
OPTIONS = (
    *("layers", "filters", "filter_size", "block_sizes", "block_stride", "pyramid", "pyramid_bins", "pooling"),
    *("rectifier", "matrix_log", "head", "posterior", "sigmoid_scale", "softmax_scale", "ridge", "ceiling", "bank"),
)


def model_data(model: Model) -> dict[str, Any]:
    """Return what the page needs to pass an image through a model, ready for JSON.

    The page leaves out averages over test views, and a readout that is too large or exact. It says so.

    Raises
    ------
    ValueError
        If the layers are too large for a page.
    """
    network = model.network.first_layers(model.network.used_layers)
    config, readout, (channels, height, width) = network.config, network.readout, network.image_shape
    room = MOST_BYTES - sum(tensor.nbytes for layer in network.layers for tensor in (layer.weights, layer.head.weights))
    if room < 0:
        raise ConfigError(
            f"model must have at most {show_bytes(MOST_BYTES)} of layers to be shown in a page, got "
            f"{show_bytes(MOST_BYTES - room)}. Use --layers to show the first ones."
        )
    fits = readout is not None and sum(part.nbytes for part in readout.learned()) <= room
    shown = readout if fits else None
    left_out = ["kernel readout"] if readout and not shown else []
    left_out += ["average over test views"] if len(config.views) > 1 else []
    known = len(shown) // config.rows_per_image if shown else 0
    facts = [
        ("layers", str(len(network.layers))),
        ("filters", f"{config.filters} per layer, {config.bank}"),
        ("readout", f"kernel, {known:,} training images" if shown else "heads of the layers"),
        ("images", f"{height}×{width}, {'grey' if channels == 1 else count(channels, 'channel', 'channels')}"),
        ("classes", str(network.classes)),
        ("trained on", str(model.about.get("dataset") or "not recorded")),
    ]
    return {
        "config": {name: getattr(config, name) for name in OPTIONS},
        "shape": network.image_shape,
        "names": model.class_names,
        "layers": [_layer_data(layer) for layer in network.layers],
        "readout": None if shown is None else _readout_data(shown),
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


def _readout_data(readout: KernelReadout) -> dict[str, Any]:
    encoder, correction = readout.encoder, readout.correction
    return {
        "weights": [_numbers(layer) for layer in encoder.weights],
        "size": encoder.sketch_size,
        "centre": _numbers(encoder.centre),
        "projection": _quantised(encoder.projection),
        "codes": _quantised(readout.codes),
        "coefficients": _numbers(readout.coefficients),
        "scale": readout.scale,
        "outside": encoder.outside,
        "mirrored": encoder.mirrored,
        "correction": None
        if correction is None
        else {"centres": _numbers(correction.centres), "coefficients": _numbers(correction.coefficients)},
    }


def _quantised(matrix: Quantised) -> dict[str, str]:
    integers = b64encode(matrix.integers.cpu().contiguous().numpy().tobytes()).decode()
    return {"integers": integers, "steps": _numbers(matrix.steps)}


def _numbers(tensor: Tensor) -> str:
    values = tensor.detach().to("cpu", torch.float32).contiguous()
    return b64encode(values.numpy().astype("<f4").tobytes()).decode()
