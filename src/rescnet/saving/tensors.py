"""Layers and readouts as bytes of safetensors files, and back."""

from __future__ import annotations

from math import prod

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ..base.errors import ModelFileError
from ..config.network import NetworkConfig
from ..network.readout import Encoder, KernelReadout, LeaveOneOutCorrection, Quantised
from ..network.stack import Layer
from ..stages.discriminant import LinearHead
from ..stages.images import ValueRange
from .folder import COPY_AGAIN

_CORRECTION = ("centres", "coefficients")  # tensors of a leave-one-out correction
_UNREADABLE = (SafetensorError, KeyError, IndexError, ValueError, TypeError, RuntimeError)
_SINGLE, _DOUBLE, _REAL = (torch.float32,), (torch.float64,), (torch.float32, torch.float64)
_Expected = dict[str, tuple[tuple[int, ...], tuple[torch.dtype, ...]]]  # shape, and types that a tensor may have


def layer_to_bytes(layer: Layer) -> bytes:
    """Return a layer as the bytes of a safetensors file."""
    return _to_bytes(
        {
            "input_range.low": layer.input_range.low,
            "input_range.high": layer.input_range.high,
            "weights": layer.weights,
            "bias": layer.bias,
            "head.weights": layer.head.weights,
            "head.bias": layer.head.bias,
            "head.present": layer.head.present,
            "rate": torch.tensor(layer.rate, dtype=torch.float64),
            "positive_share": torch.tensor(layer.positive_share, dtype=torch.float64),
        }
    )


def layer_from_bytes(
    data: bytes, name: str, config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, number: int
) -> Layer:
    """Return the layer in the bytes of a safetensors file, its tensors checked against the configuration.

    Parameters
    ----------
    data : bytes
    name : str
        The file, for the error message.
    number : int
        The layer, counted from 1.
    """
    tensors = _load(data, name)
    expected = _expected_in_layer(config, image_shape, classes, number)
    if "weights" in tensors and tensors["weights"].dtype == torch.float64:
        expected = {key: (shape, _DOUBLE if types == _SINGLE else types) for key, (shape, types) in expected.items()}
    _check(tensors, expected, name)
    return Layer(
        ValueRange(tensors["input_range.low"], tensors["input_range.high"]),
        tensors["weights"],
        tensors["bias"],
        LinearHead(tensors["head.weights"], tensors["head.bias"], tensors["head.present"]),
        float(tensors["rate"]),
        float(tensors["positive_share"]),
    )


def layer_bytes(config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, itemsize: int = 4) -> int:
    """Return the approximate size of a layer's file in bytes."""
    shapes = (shape for shape, _ in _expected_in_layer(config, image_shape, classes, 2).values())
    return itemsize * sum(map(prod, shapes)) + 1024


def readout_to_bytes(readout: KernelReadout) -> bytes:
    """Return a readout as the bytes of a safetensors file."""
    encoder, codes = readout.encoder, readout.codes
    tensors = {
        "coefficients": readout.coefficients,
        "scale": torch.tensor(readout.scale, dtype=torch.float64),
        "mirrored": torch.tensor(readout.mirrored),
        "ridge": torch.tensor(readout.ridge, dtype=torch.float64),
        "encoder.weights": encoder.weights,
        "encoder.centre": encoder.centre,
        "encoder.projection": encoder.projection.integers,
        "encoder.steps": encoder.projection.steps,
        "encoder.outside": torch.tensor(encoder.outside, dtype=torch.float64),
        "codes": codes.integers,
        "codes.steps": codes.steps,
    }
    if readout.temperature is not None:
        tensors["temperature"] = torch.tensor(readout.temperature, dtype=torch.float64)
    if readout.ridge_factors is not None:
        tensors["ridge_factors"] = readout.ridge_factors
    if readout.correction is not None:
        tensors |= {f"loo_correction.{part}": getattr(readout.correction, part) for part in _CORRECTION}
    return _to_bytes(tensors)


def readout_from_bytes(
    data: bytes, name: str, config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, layers: int
) -> KernelReadout:
    """Return the readout in the bytes of the file ``name``, checked against the network's first ``layers`` layers."""
    tensors = _load(data, name)
    try:
        expected = _expected_in_readout(tensors, config, image_shape, classes, layers)
    except _UNREADABLE as error:
        raise ModelFileError(f"{name} is not a readout of rescnet ({error}). {COPY_AGAIN}") from None
    _check(tensors, expected, name)
    numbers = {key: tensor.item() for key, tensor in tensors.items() if tensor.ndim == 0}
    if numbers["scale"] < 0 or numbers.get("temperature", 1) <= 0:
        raise ModelFileError(f"{name}: 'scale' must not be negative, and 'temperature' must be positive. {COPY_AGAIN}")
    projection = Quantised(tensors["encoder.projection"], tensors["encoder.steps"])
    outside, mirrored = numbers["encoder.outside"], bool(numbers["mirrored"])
    correction = None
    if "loo_correction.centres" in tensors:
        correction = LeaveOneOutCorrection(*(tensors[f"loo_correction.{part}"] for part in _CORRECTION))
    return KernelReadout(
        Encoder(tensors["encoder.weights"], tensors["encoder.centre"], projection, mirrored, outside),
        Quantised(tensors["codes"], tensors["codes.steps"]),
        tensors["coefficients"],
        numbers["scale"],
        numbers["ridge"],
        correction,
        numbers.get("temperature"),
        tensors.get("ridge_factors"),
    )


def solution_to_bytes(solution: Tensor) -> bytes:
    """Return the solution of an interrupted fit as bytes."""
    return _to_bytes({"solution": solution})


def solution_from_bytes(data: bytes) -> Tensor | None:
    """Return the solution in the bytes; None if they are damaged: the fit then starts again."""
    try:
        solution = load(data)["solution"]
    except _UNREADABLE:
        return None
    return solution if solution.is_floating_point() and solution.ndim == 2 and bool(solution.isfinite().all()) else None


def _to_bytes(tensors: dict[str, Tensor]) -> bytes:
    # Cloned: safetensors accepts neither views, e.g. an expanded range, nor tensors that share memory.
    return bytes(save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}))


def _load(data: bytes, name: str) -> dict[str, Tensor]:
    try:
        return load(data)
    except _UNREADABLE as error:
        raise ModelFileError(f"{name} must be a safetensors file, but is not ({error}). {COPY_AGAIN}") from None


def _check(tensors: dict[str, Tensor], expected: _Expected, name: str) -> None:
    """Raise ModelFileError if a tensor of the file ``name`` is missing, of another shape or type, or not finite."""
    for key, (shape, types) in expected.items():
        tensor = tensors.get(key)
        if tensor is None:
            raise ModelFileError(f"{name} must have a tensor {key!r}, but has none. {COPY_AGAIN}")
        if tuple(tensor.shape) != shape:
            raise ModelFileError(f"{name}: {key!r} must have shape {shape}, got {tuple(tensor.shape)}. {COPY_AGAIN}")
        if tensor.dtype not in types:
            raise ModelFileError(f"{name}: {key!r} must be {types[0]}, got {tensor.dtype}. {COPY_AGAIN}")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ModelFileError(f"{name}: {key!r} must be finite, got NaN or infinity. {COPY_AGAIN}")


def _expected_in_layer(
    config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, number: int
) -> _Expected:
    """Return the shapes and types of a layer's tensors, in single precision."""
    channels = image_shape[0] + (config.filters if config.place_in_stack(number) > 1 else 0)
    k, groups = config.size_of_filter(number), classes if config.head == "ridge" else 2 * classes
    return {
        "input_range.low": ((channels,), _SINGLE),
        "input_range.high": ((channels,), _SINGLE),
        "weights": ((config.filters, channels, k, k), _SINGLE),
        "bias": ((config.filters,), _SINGLE),
        "head.weights": ((config.features(image_shape[1:]), groups), _SINGLE),
        "head.bias": ((groups,), _SINGLE),
        "head.present": ((groups,), (torch.bool,)),
        "rate": ((), _DOUBLE),
        "positive_share": ((), _DOUBLE),
    }


def _expected_in_readout(
    tensors: dict[str, Tensor], config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, layers: int
) -> _Expected:
    """Return the shapes and types of a readout's tensors; the tensors themselves say how many codes there are."""
    rows, size, features = len(tensors["coefficients"]), tensors["codes"].shape[1], config.features(image_shape[1:])
    # Not by the configuration: a resumed run may plan more layers than this readout was fitted to.
    numbers = layers * max(1, min(features, len(tensors["encoder.centre"]) // layers))
    expected: _Expected = {
        "coefficients": ((rows, classes), _REAL),
        "scale": ((), _DOUBLE),
        "mirrored": ((), (torch.bool,)),
        "ridge": ((), _DOUBLE),
        "encoder.weights": ((layers, features), _SINGLE),
        "encoder.centre": ((numbers,), _SINGLE),
        "encoder.projection": ((numbers, size), (torch.int8,)),
        "encoder.steps": ((size,), _SINGLE),
        "encoder.outside": ((), _DOUBLE),
        "codes": ((rows, size), (torch.int8,)),
        "codes.steps": ((size,), _SINGLE),
    }
    optional: _Expected = {"temperature": ((), _DOUBLE), "ridge_factors": ((rows,), _REAL)}
    expected |= {key: kind for key, kind in optional.items() if key in tensors}
    if any(key.startswith("loo_correction.") for key in tensors):
        centres = len(tensors["loo_correction.centres"])
        expected |= {f"loo_correction.{part}": ((centres, classes), _REAL) for part in _CORRECTION}
    return expected
