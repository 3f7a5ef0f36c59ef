"""A network as a module for ``torch.export``: its layers' tensors are buffers, the rest are constants."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from ..network.stack import Layer, LayerStack
from ..stages.discriminant import LinearHead
from ..stages.images import ValueRange


class ExportedLayer(nn.Module):
    """One layer whose tensors are float32 buffers; there are no parameters and no gradients."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        layer = layer.to(torch.device("cpu"), torch.float32)
        self.rate, self.positive_share = layer.rate, layer.positive_share
        for name, tensor in (
            ("low", layer.input_range.low),
            ("high", layer.input_range.high),
            ("weights", layer.weights),
            ("bias", layer.bias),
            ("head_weights", layer.head.weights),
            ("head_bias", layer.head.bias),
            ("present", layer.head.present),
        ):
            self.register_buffer(name, tensor.detach().clone(memory_format=torch.contiguous_format))

    def layer(self) -> Layer:
        """Return the layer with the buffers as its tensors."""
        buffers = dict(self.named_buffers())
        head = LinearHead(buffers["head_weights"], buffers["head_bias"], buffers["present"])
        value_range = ValueRange(buffers["low"], buffers["high"])
        return Layer(value_range, buffers["weights"], buffers["bias"], head, self.rate, self.positive_share)


class ExportedNetwork(nn.Module):
    """The layers of a stack as a module that ``torch.export`` can trace."""

    def __init__(self, stack: LayerStack) -> None:
        super().__init__()
        self.stack = replace(stack, layers=[], half=False)
        self.layers = nn.ModuleList(ExportedLayer(layer) for layer in stack.layers)

    def forward(self, images: Tensor) -> Tensor:
        """Return Ỹ (n, classes) of images (n, channels, height, width)."""
        layers = [module.layer() for module in self.layers if isinstance(module, ExportedLayer)]
        output = images
        for output in replace(self.stack, layers=layers).staged_outputs(images):  # noqa: B007  (only the last one)
            pass
        return output
