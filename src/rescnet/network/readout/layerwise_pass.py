"""Images, in all their views, on their way through a trained network, all of them one layer at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...stages.augment import view_images
from ...stages.mixed_precision import padded_size

if TYPE_CHECKING:
    from ..network import Layer, Network

VIEWS = (False, 0, 0), (True, 0, 0)  # as it is, and mirrored


class Walk:
    """Images that go through a network's layers together.

    Parameters
    ----------
    network : Network
    images : Tensor, shape (n, channels, height, width)
        On any device.
    mirrored : bool
        Whether each image goes through as its mirror image too.

    Attributes
    ----------
    features : Tensor, shape (views, n, D)
        Of the layer they went through last; padded with zeros for tensor cores in half precision. Free to be changed.
    """

    def __init__(self, network: Network, images: Tensor, mirrored: bool) -> None:
        self.network, self.images = network, images
        self.views = VIEWS[: 1 + mirrored]
        first, (_, height, width) = network.layers[0].weights, network.image_shape
        dtype = torch.float16 if network.half else first.dtype
        count = len(self.views), len(images)
        self.width = network.config.features((height, width))
        padded = padded_size(self.width) if network.half else self.width
        self.features = torch.zeros(*count, padded, dtype=dtype, device=first.device)
        maps = torch.empty(*count, height, width, network.config.filters, dtype=dtype, device=first.device)
        self._maps = maps.permute(0, 1, 4, 2, 3)  # channels last, for the kernels
        self._output = first.new_zeros(*count, network.classes)
        self._before = torch.zeros_like(self._output)

    @property
    def output(self) -> Tensor:
        """Ỹ of the layers so far, the mean over views, shape (n, classes)."""
        return self._output.mean(0)

    def through(self, layer: Layer) -> Tensor:
        """Let all images through the next layer and return their features."""
        network = self.network
        for view, part in self._parts():
            images = view_images(self.images[part].to(layer.weights.device), self.views[view])
            maps = network.maps(layer, self._maps[view, part], network.prepared(images))
            self._maps[view, part] = maps
            features = network.features(maps)
            self.features[view, part, : self.width] = features
            output = self._output[view, part]
            ahead = network.ahead(output, self._before[view, part])
            self._before[view, part] = output
            self._output[view, part] = network.update(layer, ahead, features)
        return self.features

    def _parts(self) -> Iterator[tuple[int, slice]]:
        for view in range(len(self.views)):
            for start in range(0, len(self.images), self.network.chunk):
                yield view, slice(start, min(start + self.network.chunk, len(self.images)))
