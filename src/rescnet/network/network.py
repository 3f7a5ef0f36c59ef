"""A trained network: layers, an optional readout, and the depth used for prediction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..base.errors import ConfigError, NumericalError
from ..base.text import count, show_shape
from ..config.network import NetworkConfig
from ..config.option import OptionError
from ..fused import has_log_kernel, has_pooling_kernel
from .device import choose_device
from .inputs import Array, as_images, warn_of_other_units
from .probabilities import probabilities
from .readout import KernelReadout
from .replay import MOST_IMAGES, Replays
from .stack import Layer, LayerStack


@dataclass(repr=False, eq=False)
class Network:
    """A trained ResCNet."""

    stack: LayerStack  #: the layers and the forward pass
    readout: KernelReadout | None = None  #: correction of the outputs, fitted after the layers
    used_layers: int = 0  #: layers that predict by default, e.g. up to the best validation accuracy; 0 becomes all
    _replays: Replays = field(default_factory=Replays, init=False)

    def __post_init__(self) -> None:
        self.used_layers = self.used_layers or len(self.layers)

    def __repr__(self) -> str:
        filters = f"{self.config.filters} {self.config.bank} filters"
        readout = ", kernel readout" if self.readout else ""
        layers = count(len(self.layers), "layer", "layers")
        return f"Network({layers} of {filters}, images {show_shape(self.image_shape)}, {self.classes} classes{readout})"

    @property
    def config(self) -> NetworkConfig:
        """Options of the network."""
        return self.stack.config

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Shape of an image: (channels, height, width)."""
        return self.stack.image_shape

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.stack.classes

    @property
    def layers(self) -> list[Layer]:
        """All trained layers."""
        return self.stack.layers

    @property
    def half(self) -> bool:
        """True if maps and features are computed in half precision."""
        return self.stack.half

    @torch.inference_mode()
    def outputs(self, images: Array, layers: int | None = None) -> Tensor:
        """Return Ỹ of images, shape (n, classes).

        Images stream through in chunks, so memory does not grow with their number. On a CPU the outputs of the same
        images always have the same bits, whatever was predicted before.

        Parameters
        ----------
        images : Tensor or array, shape (n, channels, height, width)
            In the units of the training images. :meth:`rescnet.Model.predict` reads image files.
        layers : int, optional
            Number of layers to use; by default :attr:`used_layers`, with the readout. Other depths have no readout.

        Raises
        ------
        NumericalError
            An output is NaN or infinite.
        """
        wanted = self._layers_asked(layers)
        checked = as_images(images, self.image_shape)
        self.warn_of_other_units(checked)
        used, device = self.first_layers(wanted), self.layers[0].weights.device
        readout = used.readout
        if device.type == "cuda" and len(checked) <= MOST_IMAGES and used._stays_on_gpu:
            key = len(checked), checked.dtype, used.config, id(readout), *map(id, used.layers)
            outputs = self._replays.outputs(key, used._computed, checked.to(device), lambda: readout and readout.cached)
            return refuse_infinite(outputs)
        return refuse_infinite(used._computed(checked))

    @property
    def _stays_on_gpu(self) -> bool:
        """True if the layers copy nothing from the host on a GPU, so that a prediction can be recorded."""
        config = self.config
        fits = has_pooling_kernel(config.pooled_maps) and (not config.matrix_log or has_log_kernel(config.pooled_maps))
        return self.half and fits

    def _computed(self, images: Tensor) -> Tensor:
        """Return Ỹ of checked images after all layers, with the readout if there is one, shape (n, classes)."""
        if self.readout is not None:
            return self.readout.outputs(self.stack, images)
        device = self.layers[0].weights.device
        parts = torch.split(images, self.stack.chunk)
        return torch.cat([self.stack.outputs(part.to(device)) for part in parts])

    def warn_of_other_units(self, images: Tensor) -> None:
        """Warn about images in other units than the training images, e.g. divided by 255."""
        warn_of_other_units(images, *self.stack.image_range.ends)

    def predict_indices(self, images: Array, layers: int | None = None) -> Tensor:
        """Return the index of each image's class, counted from 0, shape (n,); see :meth:`outputs`."""
        return self.outputs(images, layers).argmax(1)

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Return the probabilities (n, C) of outputs; calibrated if the readout has a fitted temperature."""
        if self.readout is None:
            return probabilities(outputs, self.config.ceiling)
        return probabilities(outputs, 1.0, self.readout.temperature)

    def to(self, device: torch.device | str) -> Network:
        """Return the network on a device, e.g. ``"cuda"``; only a GPU computes in half precision."""
        place = choose_device(str(device))
        layers = [layer.to(place, layer.weights.dtype) for layer in self.layers]
        return replace(self, stack=replace(self.stack, layers=layers, half=self.half and place.type == "cuda"))

    def averaged_over(self, views: str | None) -> Network:
        """Return the same network with predictions averaged over other views, e.g. ``"flip + shift 1"``.

        ``""`` is the image alone; None changes nothing.
        """
        if views is None or views == self.config.test_views:
            return self
        try:
            config = replace(self.config, test_views=views)
        except OptionError as error:
            raise error.under_name("views") from None
        config.check_images(self.image_shape[0], self.image_shape[1:])
        network = replace(self, stack=replace(self.stack, config=config))
        network._replays = self._replays
        return network

    def first_layers(self, layers: int) -> Network:
        """Return the network that ends after n layers; the readout belongs to :attr:`used_layers` only."""
        wanted = self._layers_asked(layers)
        readout = self.readout if wanted == self.used_layers else None
        return Network(replace(self.stack, layers=self.layers[:wanted]), readout)

    def learned(self) -> list[Tensor]:
        """Return all tensors: filters, heads, and those of the readout."""
        layers = (
            tensor
            for layer in self.layers
            for tensor in (layer.weights, layer.bias, layer.head.weights, layer.head.bias)
        )
        return [*layers, *([] if self.readout is None else self.readout.learned())]

    @property
    def parameters(self) -> int:
        """Number of all learned numbers."""
        return sum(tensor.numel() for tensor in self.learned())

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in self.learned())

    def _layers_asked(self, layers: int | None) -> int:
        if not self.layers:
            raise ConfigError("network must have layers. Train it first.")
        if layers is None:
            return self.used_layers
        if not 1 <= layers <= len(self.layers):
            raise ConfigError(f"layers must be between 1 and {len(self.layers)}, got {layers}.")
        return layers


def refuse_infinite(outputs: Tensor) -> Tensor:
    """Return outputs (n, classes); raise NumericalError if one is NaN or infinite."""
    if not bool(outputs.isfinite().all()):
        raise NumericalError(
            "outputs must be finite, got NaN or infinity. Check the units of the images, or train the model again."
        )
    return outputs
