"""The network: the eight stages in order, on one screen.

X⁽ⁱ⁾ = scale([φ(O⁽ⁱ⁻¹⁾) ; image])        stage 1; the paper has no φ
O⁽ⁱ⁾ = X⁽ⁱ⁾ ∗ W⁽ⁱ⁾ + B⁽ⁱ⁾                  stages 2 to 4
F⁽ⁱ⁾ = pyramid(second_order(ReLU(O⁽ⁱ⁾)))   stages 5 and 6
Ỹ⁽ⁱ⁾ = Ỹ⁽ⁱ⁻¹⁾ + α [n_p/N·Ỹ_p - n_n/N·Ỹ_n]  stages 7 and 8
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from ..config.network import NetworkConfig
from ..kernels.half_precision import FoldedScale, convolve_scaled
from ..stages.activation import activate
from ..stages.augment import mean_of_views, view_images
from ..stages.convolution import convolve
from ..stages.discriminant import LinearHead, shares, sigmoid_posterior, softmax_posterior
from ..stages.images import ValueRange, concatenate, min_max_scale
from ..stages.preparation import Preparation
from ..stages.residual import compensate, look_ahead
from .features import layer_features
from .inputs import as_images, warn_of_other_units
from .memory import chunk_size
from .readout import KernelReadout, rows_at_a_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Images = Tensor | NDArray[Any]


@dataclass(frozen=True)
class Layer:
    """What one layer has learnt.

    Attributes
    ----------
    input_range : ValueRange
        The range its input is scaled by.
    weights : Tensor, shape (d_i, c, k, k)
    bias : Tensor, shape (d_i,)
    head : LinearHead
        LDA: C positive groups, then C negative ones. Ridge: C regressions of the residual.
    rate : float
        α.
    positive_share : float
        n_p/N; n_n/N is the rest.
    preparation : Preparation, optional
        What images go through before the first layer, which keeps it.
    """

    input_range: ValueRange
    weights: Tensor
    bias: Tensor
    head: LinearHead
    rate: float
    positive_share: float
    preparation: Preparation | None = None

    def to(self, device: torch.device, dtype: torch.dtype) -> Layer:
        """Return the layer on a device, in a floating type."""
        low, high = self.input_range.low.to(device, dtype), self.input_range.high.to(device, dtype)
        return replace(
            self,
            input_range=ValueRange(low, high),
            weights=self.weights.to(device, dtype),
            bias=self.bias.to(device, dtype),
            head=self.head.to(device, dtype),
            preparation=self.preparation and self.preparation.to(device, dtype),
        )


@dataclass(repr=False)
class Network:
    """A trained ResCNet: layers that correct each other's residual.

    Attributes
    ----------
    config : NetworkConfig
    image_shape : tuple of int
        (channels, height, width).
    classes : int
    layers : list of Layer
    half : bool
        Compute maps and features in half precision (scores and outputs stay in float32).
    readout : KernelReadout, optional
        What is added to the outputs of the layers used.
    depth : int, optional
        Layers used where nobody says how many, as those best on validation images; None: all.
    """

    config: NetworkConfig
    image_shape: tuple[int, int, int]
    classes: int
    layers: list[Layer] = field(default_factory=list)
    half: bool = False
    readout: KernelReadout | None = None
    depth: int | None = None

    def __repr__(self) -> str:
        shape = "×".join(map(str, (*self.image_shape[1:], self.image_shape[0])))
        filters = f"{self.config.filters} {self.config.bank} filters"
        readout = ", kernel readout" if self.readout else ""
        layers = f"{len(self.layers)} layer{'' if len(self.layers) == 1 else 's'}"
        return f"Network({layers} of {filters}, images {shape}, {self.classes} classes{readout})"

    def averaged_over(self, views: str | None) -> Network:
        """Return the network with predictions that are the mean over such views, as ``"flip + shift 1"``.

        The layers are the same, and learn nothing of it: ``""`` is the image as it is, None what it was trained with.
        """
        return self if views is None else replace(self, config=replace(self.config, average=views))

    def maps(self, layer: Layer, maps: Tensor | None, images: Tensor) -> Tensor:
        """Return O of a layer, shape (n, d_i, h, w), from the maps before it and the images (stages 1 to 4)."""
        dilation = self.config.dilation
        if not self.sees_maps(layer):
            maps, dilation = None, 1
        if self.half:
            scaled, folded = self.scaled_images(layer.input_range, images), self.folded_scale(layer.input_range, maps)
            inputs = self.activated(maps), scaled.half(), folded
            return convolve_scaled(*inputs, layer.weights, layer.bias, dilation, self.config.border)
        x = self.layer_input(layer.input_range, maps, images)
        return convolve(x, layer.weights, layer.bias, dilation, self.border(layer.input_range, maps))

    def sees_maps(self, layer: Layer) -> bool:
        """Return whether a layer's input holds maps: not that of the first one, nor where maps were dropped."""
        return layer.weights.shape[1] > self.image_shape[0]

    @property
    def image_range(self) -> ValueRange:
        """The range of the training images, channel by channel, before they were prepared."""
        first = self.layers[0]
        return first.input_range if first.preparation is None else first.preparation.image_range

    def warn_of_other_units(self, images: Tensor) -> None:
        """Warn of images that are not in the units of the training images, as those divided by 255."""
        warn_of_other_units(images, float(self.image_range.low.min()), float(self.image_range.high.max()))

    def prepared(self, images: Tensor) -> Tensor:
        """Return images as the layers take them: as they are, unless contrast or whitening was asked for."""
        preparation = self.layers[0].preparation
        return images if preparation is None else preparation(images)

    def layer_input(self, input_range: ValueRange, maps: Tensor | None, images: Tensor) -> Tensor:
        """Return X of a layer, scaled, shape (n, d_{i-1} + d, h, w); the image itself without maps."""
        images = self.scaled_images(input_range, images)
        before = self.activated(maps)
        return images if before is None else min_max_scale(concatenate(before.to(images.dtype), images), input_range)

    def border(self, input_range: ValueRange, maps: Tensor | None) -> Tensor | Literal["zero", "edge"]:
        """Return what lies around X of a layer, as ``convolve`` takes it; zeros are scaled with the maps, if asked."""
        if self.config.border != "zero-before-scaling":
            return self.config.border
        if maps is None:
            return "zero"
        return min_max_scale(torch.zeros_like(input_range.low)[None], input_range)[0]

    def activated(self, maps: Tensor | None) -> Tensor | None:
        """Return the maps before a layer as it reads them: φ(O), if there are any."""
        return None if maps is None else activate(maps, self.config.activation)

    def scaled_images(self, input_range: ValueRange, images: Tensor) -> Tensor:
        """Return images scaled by the first layer's range, which is ``input_range`` while there is no layer yet."""
        first = self.layers[0].input_range if self.layers else input_range
        return min_max_scale(images.to(first.low.dtype), first)

    def folded_scale(self, input_range: ValueRange, maps: object | None) -> FoldedScale:
        """Return what half-precision filters are multiplied by instead of the maps."""
        if maps is None:
            return FoldedScale.none(self.image_shape[0], input_range.low.device)
        return FoldedScale.of(input_range)

    def features(self, maps: Tensor) -> Tensor:
        """Return F of a layer, shape (n, D) (stages 5 and 6)."""
        return layer_features(self.config, maps)

    def update(self, layer: Layer, output: Tensor, features: Tensor) -> Tensor:
        """Return Ỹ⁽ⁱ⁾ from Ỹ⁽ⁱ⁻¹⁾ and the layer's features, shape (n, classes) (stages 7 and 8)."""
        scores = layer.head.scores(features)
        if self.config.head == "ridge":
            return output + layer.rate * scores
        positive, negative = self.posteriors(scores, layer.head.present)
        return compensate(output, layer.rate, layer.positive_share, positive, 1 - layer.positive_share, negative)

    def ahead(self, output: Tensor, before: Tensor) -> Tensor:
        """Return where a layer's correction starts from, shape (n, classes): Ỹ, or where momentum takes it."""
        return look_ahead(output, before, self.config.momentum) if self.config.momentum else output

    def posteriors(self, scores: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Return Ỹ_p and Ỹ_n, each (n, classes), from scores (n, 2·classes) (equations 4 and 12)."""
        signs = zip(scores.chunk(2, dim=1), present.chunk(2), strict=True)
        if self.config.posterior == "softmax":
            positive, negative = (softmax_posterior(s, here, self.config.softmax_scale) for s, here in signs)
            return positive, negative
        positive, negative = (sigmoid_posterior(s, here, self.config.sigmoid_scale) for s, here in signs)
        if self.config.posterior == "sigmoid-shares":
            return shares(positive), shares(negative)
        return positive, negative

    def staged_outputs(self, images: Tensor) -> Iterator[Tensor]:
        """Yield Ỹ⁽¹⁾, Ỹ⁽²⁾, … of one chunk of images (n, d, h, w), each (n, classes); the mean over views, if asked.

        They are the layers' own: a readout is no part of them.
        """
        maps: Tensor | None = None
        views = self.config.views
        if len(views) > 1:
            images = torch.cat([view_images(images, view) for view in views])
        images = self.prepared(images)
        output = before = self.layers[0].weights.new_zeros(len(images), self.classes)
        for layer in self.layers:
            maps = self.maps(layer, maps, images)
            before, ahead = output, self.ahead(output, before)
            output = self.update(layer, ahead, self.features(maps))
            yield output if len(views) == 1 else mean_of_views(output, len(views))

    @torch.inference_mode()
    def outputs(self, images: Images, layers: int | None = None, chunk: int | None = None) -> Tensor:
        """Return Ỹ after some layers, shape (n, classes); after those used, if not said, with the readout, if any.

        Images stream through in chunks, so memory does not grow with their number; ``chunk`` sets the images at a time.
        A readout lets its training images through too, at the first call, or at every one where their features are too
        many to be kept, and sets the images at a time itself.
        """
        wanted = self._layers_asked(layers)
        checked = as_images(images, self.image_shape)
        self.warn_of_other_units(checked)
        shortened = self.first_layers(wanted)
        if shortened.readout is not None:
            return shortened.readout.outputs(shortened, checked)
        first = self.layers[0].weights
        chunk = chunk or self.chunk
        results = []
        for part in torch.split(checked, chunk):
            output = torch.empty(0)
            for output in shortened.staged_outputs(part.to(first.device)):  # noqa: B007  (only the last one is wanted)
                pass
            results.append(output)
        return torch.cat(results)

    @property
    def chunk(self) -> int:
        """How many images go through a layer at a time in prediction."""
        first = self.layers[0].weights
        return chunk_size(self.config, self.image_shape, first.dtype.itemsize, first.device.type, self.half)

    def learnt(self) -> list[Tensor]:
        """Return all that was learnt: filters, heads, and the numbers of a readout."""
        layers = (
            tensor
            for layer in self.layers
            for tensor in (layer.weights, layer.bias, layer.head.weights, layer.head.bias)
        )
        return [*layers, *([] if self.readout is None else self.readout.learnt())]

    @property
    def nbytes(self) -> int:
        """The bytes of all that was learnt, and of the training images a readout keeps."""
        return sum(tensor.nbytes for tensor in self.learnt()) + (self.readout.images.nbytes if self.readout else 0)

    @property
    def batch(self) -> int:
        """How many images are best predicted at a time: as many as fit, where a readout compares them with others."""
        readout = self.readout
        return self.chunk if readout is None else rows_at_a_time(self, len(readout.images), readout.mirrored)

    def predict(self, images: Images, layers: int | None = None) -> Tensor:
        """Return the class of each image, shape (n,)."""
        return self.outputs(images, layers).argmax(1)

    def first_layers(self, layers: int) -> Network:
        """Return the network that ends after so many layers; the readout goes with those used only."""
        wanted = self._layers_asked(layers)
        readout = self.readout if wanted == self.used_layers else None
        return replace(self, layers=self.layers[:wanted], readout=readout, depth=None)

    @property
    def used_layers(self) -> int:
        """How many layers a prediction goes through, where nobody says."""
        return len(self.layers) if self.depth is None else self.depth

    def _layers_asked(self, layers: int | None) -> int:
        if not self.layers:
            raise ValueError("the network has no layers yet: train it first.")
        if layers is None:
            return self.used_layers
        if not 1 <= layers <= len(self.layers):
            raise ValueError(f"{layers} layers were asked of a network of {len(self.layers)}: choose 1 to that.")
        return layers
