"""The forward pass: layers that correct each other's residual.

X⁽ⁱ⁾ = scale([O⁽ⁱ⁻¹⁾ ; image])             stage 1
O⁽ⁱ⁾ = X⁽ⁱ⁾ ∗ W⁽ⁱ⁾ + B⁽ⁱ⁾                  stages 2 to 4
F⁽ⁱ⁾ = pyramid(second_order(ReLU(O⁽ⁱ⁾)))   stages 5 and 6
Ỹ⁽ⁱ⁾ = Ỹ⁽ⁱ⁻¹⁾ + α [n_p/N·Ỹ_p - n_n/N·Ỹ_n]  stages 7 and 8

Prediction, the readout and the exported module call :meth:`LayerStack.step`. Training calls its three parts,
:meth:`LayerStack.convolution`, :meth:`LayerStack.features` and :meth:`LayerStack.update`, since heads are learned in
between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..config.network import NetworkConfig
from ..fused import Convolution, convolution_for, logs_for, pool_maps
from ..fused.half_precision import FoldedScale
from ..numerics.threads import in_threads
from ..stages.augment import mean_of_views, view_images
from ..stages.convolution import convolve
from ..stages.discriminant import LinearHead, posteriors
from ..stages.images import ValueRange, concatenate, min_max_scale
from ..stages.residual import compensate
from .memory import RunSizes, chunk_size


@dataclass(frozen=True, eq=False)
class Layer:
    """Everything that one layer has learned."""

    input_range: ValueRange  # by which the layer's input is scaled
    weights: Tensor  # (d_i, c, k, k)
    bias: Tensor  # (d_i,)
    head: LinearHead  # LDA: C positive groups, then C negative ones. Ridge: C regressions of the residual
    rate: float  # learning rate α
    positive_share: float  # n_p/N; n_n/N is the rest

    def to(self, device: torch.device, dtype: torch.dtype) -> Layer:
        """Return the layer on a device, in a floating type."""
        low, high = self.input_range.low.to(device, dtype), self.input_range.high.to(device, dtype)
        return replace(
            self,
            input_range=ValueRange(low, high),
            weights=self.weights.to(device, dtype),
            bias=self.bias.to(device, dtype),
            head=self.head.to(device, dtype),
        )


class Step(NamedTuple):
    """Result of one layer for n images."""

    maps: Tensor  # O, (n, d_i, h, w)
    features: Tensor  # F, (n, D)
    output: Tensor  # Ỹ, (n, classes)


@dataclass(eq=False)
class LayerStack:
    """Layers and the forward pass through them."""

    config: NetworkConfig
    image_shape: tuple[int, int, int]  # (channels, height, width)
    classes: int
    layers: list[Layer] = field(default_factory=list)
    half: bool = False  # maps and features are computed in half precision; scores and outputs stay in float32

    def step(self, layer: Layer, maps: Tensor | None, output: Tensor, images: Tensor) -> Step:
        """Apply one layer to a chunk of images (n, channels, h, w), in the units of the training images.

        ``maps`` (n, d_i, h, w), None before the first layer, and ``output`` (n, classes) are O and Ỹ of the layer
        before.
        """
        maps = self.maps(layer, maps, images)
        features = self.features(maps)
        return Step(maps, features, self.update(layer, output, features))

    def maps(self, layer: Layer, maps: Tensor | None, images: Tensor) -> Tensor:
        """Return O of a layer, shape (n, d_i, h, w), from the maps before it and the images (stages 1 to 4)."""
        return self.convolution(layer)(maps if self.sees_maps(layer) else None, images)[0]

    def convolution(self, layer: Layer) -> Convolution:
        """Return the function from the maps that a layer sees, and images, to its O, and to the range of O if known."""
        fitted, weights, bias = layer.input_range, layer.weights, layer.bias
        if not self.half:
            return lambda maps, images: (convolve(self.layer_input(fitted, maps, images), weights, bias), None)
        folded = self.folded_scale(fitted, self.sees_maps(layer))
        return convolution_for(folded, weights, bias, FoldedScale.of(self.first_range(fitted)))

    def features(self, maps: Tensor) -> Tensor:
        """Return F of a layer, shape (n, D) (stages 5 and 6). On a CPU each thread computes those of some images."""
        return in_threads(self._features, maps)

    def _features(self, maps: Tensor) -> Tensor:
        config, (height, width) = self.config, maps.shape[2:]
        kind = config.keeps_diagonal, config.pooling, config.rectifier
        features = pool_maps(maps, config.grids((height, width)), *kind)
        if config.matrix_log:
            features = logs_for(features, config.pooled_maps)(features, config.pooled_maps)
        return features

    def update(self, layer: Layer, output: Tensor, features: Tensor) -> Tensor:
        """Return Ỹ⁽ⁱ⁾ from Ỹ⁽ⁱ⁻¹⁾ and the layer's features, shape (n, classes) (stages 7 and 8)."""
        scores = layer.head.scores(features)
        if self.config.head == "ridge":
            return output + layer.rate * scores
        positive, negative = self.posteriors(scores, layer.head.present)
        return compensate(output, layer.rate, layer.positive_share, positive, 1 - layer.positive_share, negative)

    def posteriors(self, scores: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Return Ỹ_p and Ỹ_n, each (n, classes), from scores (n, 2·classes) (equations 4 and 12)."""
        config = self.config
        return posteriors(scores, present, config.posterior, config.sigmoid_scale, config.softmax_scale)

    def staged_outputs(self, images: Tensor) -> Iterator[Tensor]:
        """Yield Ỹ⁽¹⁾, Ỹ⁽²⁾, … of one chunk of images (n, d, h, w), averaged over the test views, each (n, classes)."""
        views = self.config.views
        if len(views) > 1:
            images = torch.cat([view_images(images, view) for view in views])
        for _, _, output in self.steps(images):
            yield output if len(views) == 1 else mean_of_views(output, len(views))

    def steps(self, images: Tensor) -> Iterator[Step]:
        """Yield the result of each layer for one chunk of images (n, d, h, w)."""
        maps: Tensor | None = None
        output = self.layers[0].weights.new_zeros(images.shape[0], self.classes)
        for layer in self.layers:
            step = self.step(layer, maps, output, images)
            maps, _, output = step
            yield step

    def outputs(self, images: Tensor) -> Tensor:
        """Return Ỹ of one chunk of images (n, d, h, w) after the last layer, shape (n, classes)."""
        *_, last = self.staged_outputs(images)
        return last

    def sees_maps(self, layer: Layer) -> bool:
        """Return whether a layer's input holds maps. At the first place of a stack it sees the image alone."""
        return layer.weights.shape[1] > self.image_shape[0]

    def layer_input(self, input_range: ValueRange, maps: Tensor | None, images: Tensor) -> Tensor:
        """Return X of a layer, shape (n, d_{i-1} + d, h, w): the scaled image, which is scaled again with any maps."""
        first = self.first_range(input_range)
        images = min_max_scale(images.to(first.low.dtype), first)
        return images if maps is None else min_max_scale(concatenate(maps.to(images.dtype), images), input_range)

    def first_range(self, input_range: ValueRange) -> ValueRange:
        """Return the range that scales the image alone: the first layer's, which may be the new one's."""
        return self.layers[0].input_range if self.layers else input_range

    def folded_scale(self, input_range: ValueRange, sees_maps: bool) -> FoldedScale:
        """Return the scaling that half-precision filters replace: that of maps and image, which is scaled already.

        Maps that vary by less than the smallest normal half are constant: their filters would overflow.
        """
        if sees_maps:
            folded, span = FoldedScale.of(input_range), input_range.high - input_range.low
            return replace(folded, scale=folded.scale * (span >= torch.finfo(torch.float16).tiny))
        return FoldedScale.none(self.image_shape[0], input_range.low.device)

    @property
    def image_range(self) -> ValueRange:
        """Range by which the first layer scales the image."""
        return self.layers[0].input_range

    @property
    def chunk(self) -> int:
        """Images per chunk in prediction."""
        first = self.layers[0].weights
        sizes = RunSizes(self.image_shape, self.classes, 0, itemsize=first.dtype.itemsize, half=self.half)
        return chunk_size(self.config, sizes, first.device.type)
