"""Images as the patch source of a layer, for tests of filter banks."""

from __future__ import annotations

import torch

from rescnet.config.network import NetworkConfig
from rescnet.network.stack import Layer, LayerStack
from rescnet.stages.images import ValueRange
from rescnet.training.heads import no_head
from rescnet.training.layer_patches import LayerInput, LayerPatches
from rescnet.training.stores import store_images


def source_of(images, labels, size=3, chunk=7, maps=None):
    """Return the patches of images (n, d, h, w), scaled to [0, 1] together; of maps and images if maps are given.

    Maps and images given together must lie in [0, 1] and are not scaled.
    """
    images = torch.as_tensor(images, dtype=torch.float64)
    stack = LayerStack(NetworkConfig(), tuple(images.shape[1:]), int(max(labels)) + 1)
    input_range, stored = ValueRange.of(images).with_scope("global"), None
    if maps is not None:
        first, input_range = (unit_range(channels) for channels in (images.shape[1], maps.shape[1] + images.shape[1]))
        weights = torch.zeros(maps.shape[1], images.shape[1], 3, 3).double()
        stack.layers.append(Layer(first, weights, weights[:, 0, 0, 0], no_head(weights), 1, 1))
        stored = store_images(maps, torch.device("cpu"), "device")
    layer_input = LayerInput(stack, input_range, stored, store_images(images, torch.device("cpu"), "device"), chunk)
    return LayerPatches(layer_input, torch.as_tensor(labels), size)


def unit_range(channels):
    return ValueRange(torch.zeros(channels).double(), torch.ones(channels).double())
