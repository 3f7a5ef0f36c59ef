"""One layer as safetensors bytes, and back.

Half-precision heads: each column of the head's weights is multiplied by a power of two that brings its largest entry
just below 2¹⁵, rounded to float16, and stored with that power. Scaling by a power of two loses nothing, so what is lost
is the rounding alone: a relative 2⁻¹¹ for all but weights a hundred million times smaller than their column's largest.
"""

from __future__ import annotations

from math import prod

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ..config.network import NetworkConfig
from ..network.layer import Layer
from ..stages.discriminant import LinearHead
from ..stages.images import ValueRange
from .errors import ModelFileError
from .layout import COPY_AGAIN

_LARGEST_EXPONENT = 15  # 2¹⁵ is well below 65504, the greatest float16


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
    # Cloned: safetensors takes neither views such as an expanded range nor tensors that share their memory.
    return bytes(save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}))


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
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise ModelFileError(f"{name} is not a safetensors file ({error}): {COPY_AGAIN}.") from None
    dtype = tensors["weights"].dtype if "weights" in tensors else None
    wanted = _expected_shapes(config, image_shape, classes, number)
    if "head.scale" in tensors:
        wanted["head.scale"] = wanted["head.bias"]
    for key, shape in wanted.items():
        if key not in tensors:
            raise ModelFileError(f"{name} has no tensor {key!r}, so it is not a layer of rescnet: {COPY_AGAIN}.")
        if tuple(tensors[key].shape) != shape:
            raise ModelFileError(
                f"{name} has {key!r} of shape {tuple(tensors[key].shape)} where the configuration means {shape}: "
                f"{COPY_AGAIN}."
            )
        if tensors[key].dtype != _expected_dtype(key, dtype, "head.scale" in tensors):
            raise ModelFileError(f"{name} has {key!r} as {tensors[key].dtype}, which no layer has: {COPY_AGAIN}.")
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
    """Return about how many bytes the file of a layer takes."""
    return itemsize * sum(prod(shape) for shape in _expected_shapes(config, image_shape, classes, 2).values()) + 1024


def _expected_shapes(
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


def _expected_dtype(key: str, dtype: torch.dtype | None, half_heads: bool) -> torch.dtype | None:
    if dtype not in (torch.float32, torch.float64):
        dtype = torch.float32
    special = {"head.present": torch.bool, "rate": torch.float64, "positive_share": torch.float64}
    if half_heads:
        special["head.weights"] = torch.float16
    return special.get(key, dtype)


def _halve(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights (D, K) as float16 and the scale (K,), a power of two, that undoes the scaling."""
    largest = weights.abs().amax(0) if len(weights) else weights.new_zeros(weights.shape[1])
    exponent = torch.frexp(largest).exponent - _LARGEST_EXPONENT
    scale = torch.where(largest > 0, torch.ldexp(torch.ones_like(largest), exponent), 1)
    return (weights / scale).to(torch.float16), scale
