"""Streaming of arrays of any size through a trained network, one chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ..network.inputs import as_images
from ..network.network import Network, refuse_infinite
from .layouts import ImageLayout


def image_chunks(network: Any, X: NDArray[Any], layout: ImageLayout, size: int) -> Iterator[tuple[int, Tensor]]:
    """Yield the start of each chunk, and its images (chunk, channels, height, width).

    Chunks are converted one at a time, so ``X`` may be a memory-mapped file larger than memory.
    """
    for start in range(0, len(X), size):
        yield start, as_images(layout.to_images(X[start : start + size]), network.image_shape)


@torch.inference_mode()
def stream_outputs(network: Network, X: NDArray[Any], layout: ImageLayout, layers: int) -> Tensor:
    """Return Ỹ after n layers, on the CPU, shape (n, classes)."""
    outputs = torch.empty(len(X), network.classes, dtype=network.layers[0].weights.dtype)
    for start, part in image_chunks(network, X, layout, network.batch):
        outputs[start : start + len(part)] = network.outputs(part, layers)
    return outputs


@torch.inference_mode()
def stream_stages(
    network: Network, X: NDArray[Any], layout: ImageLayout, layers: int, keep: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return ``keep`` of Ỹ⁽¹⁾, Ỹ⁽²⁾, …, each (chunk, classes), on the CPU, shape (layers, n, …); only this is held."""
    device = network.layers[0].weights.device
    stages = torch.empty(0)
    for start, part in image_chunks(network, X, layout, network.stack.chunk):
        network.warn_of_other_units(part)
        for layer, output in enumerate(islice(network.stack.staged_outputs(part.to(device)), layers)):
            kept = keep(refuse_infinite(output))
            if not len(stages):
                stages = torch.empty(layers, len(X), *kept.shape[1:], dtype=kept.dtype)
            stages[layer, start : start + len(part)] = kept
    return stages


def on_device(network: Network, device: torch.device) -> Network:
    """Return the network on a device; half precision only on a GPU."""
    layers = [layer.to(device, layer.weights.dtype) for layer in network.layers]
    stack = replace(network.stack, layers=layers, half=network.half and device.type == "cuda")
    return replace(network, stack=stack)
