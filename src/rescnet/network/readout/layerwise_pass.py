"""All images of a set, in all their views, through a trained stack, one layer at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ...stages.augment import view_images
from ...stages.linear_algebra import padded_size
from ..layer import Layer
from ..stack import LayerStack

VIEWS = (False, 0, 0), (True, 0, 0)  # the image, and its mirror image


class LayerwisePass:
    """Images that pass through a stack's layers together.

    Parameters
    ----------
    stack : LayerStack
    images : Tensor, shape (n, channels, height, width)
        On any device.
    mirrored : bool
        Also pass each image's mirror image.

    Attributes
    ----------
    features : Tensor, shape (views, n, D)
        Features of the last layer; padded with zeros for tensor cores in half precision. Callers may overwrite them.
    """

    def __init__(self, stack: LayerStack, images: Tensor, mirrored: bool) -> None:
        self.stack, self.images = stack, images
        self.views = VIEWS[: 1 + mirrored]
        first, (_, height, width) = stack.layers[0].weights, stack.image_shape
        dtype = torch.float16 if stack.half else first.dtype
        count = len(self.views), len(images)
        self.width = stack.config.features((height, width))
        padded = padded_size(self.width) if stack.half else self.width
        self.features = torch.zeros(*count, padded, dtype=dtype, device=first.device)
        maps = torch.empty(*count, height, width, stack.config.filters, dtype=dtype, device=first.device)
        self._maps = maps.permute(0, 1, 4, 2, 3)  # channels last, for the kernels
        self._output = first.new_zeros(*count, stack.classes)

    @property
    def output(self) -> Tensor:
        """Ỹ of the layers so far, averaged over the views, shape (n, classes)."""
        return self._output.mean(0)

    def advance(self, layer: Layer) -> Tensor:
        """Pass all images through the next layer and return their features."""
        for view, part in self._parts():
            images = view_images(self.images[part].to(layer.weights.device), self.views[view])
            maps, features, output = self.stack.step(layer, self._maps[view, part], self._output[view, part], images)
            self._maps[view, part], self._output[view, part] = maps, output
            self.features[view, part, : self.width] = features
        return self.features

    def _parts(self) -> Iterator[tuple[int, slice]]:
        chunk = self.stack.chunk
        for view in range(len(self.views)):
            for start in range(0, len(self.images), chunk):
                yield view, slice(start, min(start + chunk, len(self.images)))
