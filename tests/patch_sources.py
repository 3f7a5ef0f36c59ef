"""Images as the patch source of a layer, for tests of filter banks."""

from __future__ import annotations

import torch

from rescnet.config.network import NetworkConfig
from rescnet.network.network import Network
from rescnet.stages.images import ValueRange
from rescnet.training.layer_patches import LayerPatches


def source_of(images, labels, size=3, chunk=7, seed=0, **options):
    config = NetworkConfig(block_sizes=(4,), pyramid=(1,), **options)
    images = torch.as_tensor(images, dtype=torch.float64)
    network = Network(config, tuple(images.shape[1:]), int(max(labels)) + 1)
    input_range = ValueRange.of(images).with_scope("global")
    generator = torch.Generator().manual_seed(seed)
    return LayerPatches(network, input_range, None, images, torch.as_tensor(labels), size, chunk, generator)
