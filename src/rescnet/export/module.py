"""A network as a module that ``torch.export`` can trace: its layers' tensors as buffers, the rest as constants."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from ..network.network import Layer, Network
from ..stages.augment import mean_of_views, view_images
from ..stages.discriminant import LinearHead
from ..stages.images import ValueRange
from ..stages.preparation import PARTS, Preparation
from ..stages.residual import compensate


class ExportedLayer(nn.Module):
    """One layer whose tensors are float32 buffers: nothing here is a parameter, nothing takes a gradient."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        layer = layer.to(torch.device("cpu"), torch.float32)
        self.rate, self.positive_share = layer.rate, layer.positive_share
        self.window = layer.preparation.window if layer.preparation else None
        preparation = layer.preparation and [getattr(layer.preparation, part) for part in PARTS]
        self.any_present = [bool(half.any()) for half in layer.head.present.chunk(2)]  # known now, so no branch later
        for name, tensor in (
            ("low", layer.input_range.low),
            ("high", layer.input_range.high),
            ("weights", layer.weights),
            ("bias", layer.bias),
            ("head_weights", layer.head.weights),
            ("head_bias", layer.head.bias),
            ("present", layer.head.present),
            *zip((f"preparation_{part}" for part in PARTS), preparation or (), strict=False),
        ):
            self.register_buffer(name, tensor.detach().clone(memory_format=torch.contiguous_format))

    def layer(self) -> Layer:
        """Return the layer made of the buffers."""
        buffers = dict(self.named_buffers())
        head = LinearHead(buffers["head_weights"], buffers["head_bias"], buffers["present"])
        value_range = ValueRange(buffers["low"], buffers["high"])
        preparation = None
        if self.window is not None:
            preparation = Preparation(self.window, *(buffers[f"preparation_{part}"] for part in PARTS))
        return Layer(
            value_range, buffers["weights"], buffers["bias"], head, self.rate, self.positive_share, preparation
        )


class ExportedNetwork(nn.Module):
    """The first layers of a network as a module that ``torch.export`` can trace.

    Parameters
    ----------
    network : Network
    layers : int, optional
        How many; all, if not said.
    """

    def __init__(self, network: Network, layers: int | None = None) -> None:
        super().__init__()
        self.network = replace(network, layers=[], half=False)
        self.layers = nn.ModuleList(ExportedLayer(layer) for layer in network.layers[:layers])

    def forward(self, images: Tensor) -> Tensor:
        """Return Ỹ (n, classes) of images (n, channels, height, width): the eight stages, layer after layer."""
        exported = [module for module in self.layers if isinstance(module, ExportedLayer)]
        network = replace(self.network, layers=[module.layer() for module in exported])
        maps: Tensor | None = None
        views = network.config.views
        if len(views) > 1:
            images = torch.cat([view_images(images, view) for view in views])
        images = network.prepared(images)
        output = before = images.new_zeros(images.shape[0], network.classes)
        for module, layer in zip(exported, network.layers, strict=True):
            maps = network.maps(layer, maps, images)
            features = network.features(maps)
            before, output = output, network.ahead(output, before)
            if network.config.head != "ridge" and network.config.posterior == "softmax":
                output = self._update_by_softmax(module, layer, output, features)
            else:
                output = network.update(layer, output, features)
        return output if len(views) == 1 else mean_of_views(output, len(views))

    def _update_by_softmax(self, module: ExportedLayer, layer: Layer, output: Tensor, features: Tensor) -> Tensor:
        """Do what ``Network.update`` does, without asking a tensor whether any group is present."""
        scores = layer.head.scores(features) * self.network.config.softmax_scale
        positive, negative = (
            torch.softmax(half.masked_fill(~present, -torch.inf), dim=1) if any_present else torch.zeros_like(half)
            for half, present, any_present in zip(
                scores.chunk(2, dim=1), layer.head.present.chunk(2), module.any_present, strict=True
            )
        )
        return compensate(output, layer.rate, layer.positive_share, positive, 1 - layer.positive_share, negative)
