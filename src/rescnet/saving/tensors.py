"""Layers and readouts as bytes of safetensors files, and back.

Half-precision heads: each column of a head's weights is scaled by a power of two that brings its largest entry just
below 2¹⁵, and rounded to float16. The scaling is exact, so the relative error is 2⁻¹¹ at most. Larger errors occur only
for weights a hundred million times smaller than the largest of their column.
"""

from __future__ import annotations

from math import prod

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ..config.network import NetworkConfig
from ..network.readout import Encoder, KernelReadout, LeaveOneOutCorrection, Quantised
from ..network.stack import Layer
from ..stages.discriminant import LinearHead
from ..stages.images import ValueRange
from .folder import COPY_AGAIN, ModelFileError

_LARGEST_EXPONENT = 15  # 2¹⁵ is well below 65504, the largest float16
_CORRECTION = ("centres", "coefficients")  # tensors of a leave-one-out correction
_UNREADABLE = (SafetensorError, KeyError, IndexError, ValueError, TypeError, RuntimeError)


def layer_to_bytes(layer: Layer, half_heads: bool = False) -> bytes:
    """Return a layer as the bytes of a safetensors file; ``half_heads`` rounds the head's weights to float16."""
    tensors = {
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
    if half_heads:
        tensors["head.weights"], tensors["head.scale"] = _halve(layer.head.weights)
    return _to_bytes(tensors)


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
    try:
        tensors = load(data)
    except _UNREADABLE as error:
        raise ModelFileError(f"{name} must be a safetensors file, but is not ({error}). {COPY_AGAIN}") from None
    dtype = tensors["weights"].dtype if "weights" in tensors else None
    expected = _layer_shapes(config, image_shape, classes, number)
    if "head.scale" in tensors:
        expected["head.scale"] = expected["head.bias"]
    for key, shape in expected.items():
        if key not in tensors:
            raise ModelFileError(f"{name} has no tensor {key!r}, so it is not a layer of rescnet. {COPY_AGAIN}")
        if tuple(tensors[key].shape) != shape:
            raise ModelFileError(
                f"{name}: {key!r} must have shape {shape} by the configuration, got {tuple(tensors[key].shape)}. "
                f"{COPY_AGAIN}"
            )
        wanted = _layer_dtype(key, dtype, "head.scale" in tensors)
        if tensors[key].dtype != wanted:
            raise ModelFileError(f"{name}: {key!r} must be {wanted}, got {tensors[key].dtype}. {COPY_AGAIN}")
    _check_finite({key: tensors[key] for key in expected}, name)
    head_weights = tensors["head.weights"].to(dtype)
    if "head.scale" in tensors:
        head_weights = head_weights * tensors["head.scale"]
    return Layer(
        ValueRange(tensors["input_range.low"], tensors["input_range.high"]),
        tensors["weights"],
        tensors["bias"],
        LinearHead(head_weights, tensors["head.bias"], tensors["head.present"]),
        float(tensors["rate"]),
        float(tensors["positive_share"]),
    )


def layer_bytes(config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, itemsize: int = 4) -> int:
    """Return the approximate size of a layer's file in bytes."""
    return itemsize * sum(prod(shape) for shape in _layer_shapes(config, image_shape, classes, 2).values()) + 1024


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
    try:
        tensors = load(data)
        _check_readout(tensors, config, image_shape, classes, layers)
    except _UNREADABLE as error:
        raise ModelFileError(f"{name} is not a readout of rescnet ({error}). {COPY_AGAIN}") from None
    _check_finite(tensors, name)
    if not tensors.get("on_residual", torch.tensor(True)):
        raise ModelFileError(f"{name} must correct the layers' output, but replaces it. Train the model again.")
    scale, mirrored, ridge = (tensors[key].item() for key in ("scale", "mirrored", "ridge"))
    correction = None
    if f"{(prefix := _correction_in(tensors))}.centres" in tensors:
        correction = LeaveOneOutCorrection(*(tensors[f"{prefix}.{part}"] for part in _CORRECTION))
    projection = Quantised(tensors["encoder.projection"], tensors["encoder.steps"])
    outside = tensors["encoder.outside"].item() if "encoder.outside" in tensors else 0.0
    encoder = Encoder(tensors["encoder.weights"], tensors["encoder.centre"], projection, bool(mirrored), outside)
    codes = Quantised(tensors["codes"], tensors["codes.steps"])
    temperature = tensors["temperature"].item() if "temperature" in tensors else None
    how = correction, temperature, tensors.get("ridge_factors")
    return KernelReadout(encoder, codes, tensors["coefficients"], scale, ridge, *how)


def _correction_in(tensors: dict[str, Tensor]) -> str:
    """Return the prefix of a leave-one-out correction's tensors, which is another one in format 1."""
    return "second_look" if any(key.startswith("second_look.") for key in tensors) else "loo_correction"


def _check_readout(
    tensors: dict[str, Tensor], config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, layers: int
) -> None:
    """Raise ValueError if a tensor is missing, or of a type or shape that this network's readout cannot have."""
    single, floats = (torch.float32,), (torch.float32, torch.float64)
    rows, features = len(tensors["coefficients"]), config.features(image_shape[1:])
    # Not by the configuration: a resumed run may plan more layers than this readout was fitted to.
    per_layer = max(1, min(features, len(tensors["encoder.centre"]) // layers))
    numbers, size = layers * per_layer, tensors["codes"].shape[1]
    wanted: dict[str, tuple[tuple[int, ...], tuple[torch.dtype, ...]]] = {
        "coefficients": ((rows, classes), floats),
        "scale": ((), (torch.float64,)),
        "mirrored": ((), (torch.bool,)),
        "ridge": ((), (torch.float64,)),
        "encoder.weights": ((layers, features), single),
        "encoder.centre": ((numbers,), single),
        "encoder.projection": ((numbers, size), (torch.int8,)),
        "encoder.steps": ((size,), single),
        "codes": ((rows, size), (torch.int8,)),
        "codes.steps": ((size,), single),
    }
    number = ((), (torch.float64,))
    optional = {"on_residual": ((), (torch.bool,)), "temperature": number, "encoder.outside": number}
    wanted |= {key: kind for key, kind in optional.items() if key in tensors}
    if "ridge_factors" in tensors:
        wanted["ridge_factors"] = (rows,), floats
    prefix = _correction_in(tensors)
    if any(key.startswith(f"{prefix}.") for key in tensors):
        centres = len(tensors[f"{prefix}.centres"])
        wanted |= {f"{prefix}.{part}": ((centres, classes), floats) for part in _CORRECTION}
    for key, (shape, types) in wanted.items():
        found = tensors[key]
        if tuple(found.shape) != shape:
            raise ValueError(f"{key!r} must have shape {shape}, got {tuple(found.shape)}")
        if found.dtype not in types:
            raise ValueError(f"{key!r} must be {types[0]}, got {found.dtype}")
    if not tensors["scale"].item() >= 0 or not tensors.get("temperature", torch.ones(())).item() > 0:
        raise ValueError("'scale' must not be negative, and 'temperature' must be positive")


def solution_to_bytes(solution: Tensor) -> bytes:
    """Return the solution of an interrupted fit as bytes."""
    return _to_bytes({"solution": solution})


def solution_from_bytes(data: bytes) -> Tensor | None:
    """Return the solution in the bytes; None if they are damaged: the fit then starts again."""
    try:
        found = load(data)["solution"]
    except _UNREADABLE:
        return None
    return found if found.is_floating_point() and found.ndim == 2 and bool(found.isfinite().all()) else None


def _to_bytes(tensors: dict[str, Tensor]) -> bytes:
    # Cloned: safetensors accepts neither views, e.g. an expanded range, nor tensors that share memory.
    return bytes(save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}))


def _check_finite(tensors: dict[str, Tensor], name: str) -> None:
    """Raise ModelFileError if a tensor of the file ``name`` holds NaN or infinity."""
    for key, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ModelFileError(f"{name}: {key!r} must be finite, got NaN or infinity. {COPY_AGAIN}")


def _layer_shapes(
    config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, number: int
) -> dict[str, tuple[int, ...]]:
    channels = image_shape[0] + (config.filters if config.place_in_stack(number) > 1 else 0)
    k, groups = config.size_of_filter(number), classes if config.head == "ridge" else 2 * classes
    return {
        "input_range.low": (channels,),
        "input_range.high": (channels,),
        "weights": (config.filters, channels, k, k),
        "bias": (config.filters,),
        "head.weights": (config.features(image_shape[1:]), groups),
        "head.bias": (groups,),
        "head.present": (groups,),
        "rate": (),
        "positive_share": (),
    }


def _layer_dtype(key: str, dtype: torch.dtype | None, half_heads: bool) -> torch.dtype:
    special = {"head.present": torch.bool, "rate": torch.float64, "positive_share": torch.float64}
    if half_heads:
        special["head.weights"] = torch.float16
    return special.get(key, torch.float64 if dtype == torch.float64 else torch.float32)


def _halve(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights (D, K) as float16 and the scale (K,), a power of two, that undoes the scaling."""
    largest = weights.abs().amax(0) if len(weights) else weights.new_zeros(weights.shape[1])
    exponent = torch.frexp(largest).exponent - _LARGEST_EXPONENT
    scale = torch.where(largest > 0, torch.ldexp(torch.ones_like(largest), exponent), 1)
    return (weights / scale).to(torch.float16), scale
