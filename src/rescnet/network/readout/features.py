"""Features of all images, layer by layer: of the training images, and of the new ones compared with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ...formatting import show_bytes
from ...stages.augment import view_images
from ...stages.gaussian_kernel import Standard
from ...stages.linear_algebra import padded_size
from ..memory import image_bytes, memory_budget
from ..stack import Layer, LayerStack

CHUNK = {"cpu": 2 * 2**30, "cuda": 16 * 2**30}  # bytes of new images that are compared at a time
VIEWS = (False, 0, 0), (True, 0, 0)  # the image, and its mirror image


class LayerwisePass:
    """Images (n, channels, height, width), with their mirror images if ``mirrored``, that pass the layers together.

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


@dataclass(frozen=True)
class ReferenceLayer:
    """Standardisation of a layer's features, and the training images' standardised features, (views, N, D)."""

    standard: Standard
    features: Tensor


def reference_layers(stack: LayerStack, images: Tensor, mirrored: bool) -> Iterator[ReferenceLayer]:
    """Pass training images through the layers; the features of one are valid until the next one is asked for."""
    through = LayerwisePass(stack, images, mirrored)
    for layer in stack.layers:
        features = through.advance(layer)
        standard = Standard.of(features)
        yield ReferenceLayer(standard, standard.apply_(features))


def batch_size(stack: LayerStack, images: int, mirrored: bool) -> int:
    """Return how many new images are compared with n training images at a time.

    ValueError is raised if the training images alone take more memory than there is.
    """
    first = stack.layers[0].weights
    one = image_bytes(stack.config, stack.image_shape, _stored(stack), mirrored)
    budget = memory_budget("auto", first.device)
    left = budget - images * one
    room = min(CHUNK[first.device.type], left)
    if room <= 0:
        raise ValueError(
            f"memory must hold the maps and features of the readout's {images:,} training images, "
            f"{show_bytes(images * one)}, got {show_bytes(budget)}. Use more memory, or fewer layers than "
            f"{len(stack.layers)}, which have no readout."
        )
    return max(1, room // (one + (1 + mirrored) * first.dtype.itemsize * images))


def _stored(stack: LayerStack) -> int:
    """Return the bytes of one number of the maps and features."""
    return 2 if stack.half else stack.layers[0].weights.dtype.itemsize
