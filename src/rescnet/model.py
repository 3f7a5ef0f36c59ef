"""The trained thing: a network with its history, the labels of its classes, and facts about the run."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from math import prod
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .base.errors import ConfigError, DataError
from .base.version import __version__
from .data.file_inputs import Paths, listed_files, read_like
from .explain.explanation import Explanation
from .explain.linearisation import explain
from .network.history import History
from .network.inputs import Array, as_images, plain_values
from .network.layouts import ImageLayout, read_layout
from .network.network import Network, refuse_infinite

NUMBERS = 2**22  # of images that are converted together


class HasModel(Protocol):
    """A fitted classifier."""

    model_: Model


@dataclass(frozen=True, repr=False, eq=False)
class Model:
    """A trained network, the labels of its classes, and what is known about the run.

    :func:`rescnet.train` and :func:`rescnet.load` return one, and a fitted classifier holds one, ``model_``.

    Methods take images in the layout and in the units of the training images, or as (n, channels, height, width). They
    also take the path of an image file or of a folder, or a list of such files, fitted to the training images.
    """

    network: Network  #: counts classes from 0
    history: History  #: one record per layer of the network
    labels: NDArray[Any]  #: label of each class, in the order of the network's outputs, shape (C,)
    about: dict[str, Any] = field(default_factory=dict)
    """Facts for JSON, all optional, e.g. ``dataset``, ``command``, ``versions``, ``device``, ``date`` and
    ``preprocessing`` (:func:`describe_images`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", np.asarray(self.labels))
        if self.labels.shape != (self.network.classes,):
            raise DataError(f"labels must be {self.network.classes}, one per class, got shape {self.labels.shape}.")
        if len(self.history) != len(self.network.layers):
            raise ConfigError(
                f"history must have {len(self.network.layers)} records, one per layer, got {len(self.history)}."
            )

    @property
    def class_names(self) -> tuple[str, ...]:
        """Labels as text, C of them."""
        return tuple(map(str, self.labels.tolist()))

    @property
    def layout(self) -> ImageLayout:
        """Layout of the training images; (channels, height, width) unless they had another one."""
        return read_layout((self.about.get("preprocessing") or {}).get("layout"), self.network.image_shape)

    def predict(self, images: Array | Paths, *, layers: int | None = None, views: str | None = None) -> NDArray[Any]:
        """Return the label of each image, shape (n,).

        Parameters
        ----------
        images : Tensor, array or paths
        layers : int, optional
            Number of layers to use; by default ``network.used_layers``, with the readout. Others have no readout.
        views : str, optional
            Views that the prediction is averaged over, e.g. ``"flip + shift 1"``; ``""`` is the image alone. By default
            those of the network, ``network.config.test_views``.
        """
        labels: NDArray[Any] = self.labels[self.outputs(images, layers=layers, views=views).argmax(1)]
        return labels

    def predict_proba(
        self, images: Array | Paths, *, layers: int | None = None, views: str | None = None
    ) -> NDArray[np.float64]:
        """Return a probability for each class, in the order of ``labels``, shape (n, C).

        With readout ``"kernel"`` they are calibrated (:mod:`rescnet.network.probabilities`).
        """
        used = self.network if layers is None else self.network.first_layers(layers)
        outputs = torch.from_numpy(self.outputs(images, layers=layers, views=views))
        return used.probabilities(outputs).numpy()

    def score(self, images: Array | Paths, labels: ArrayLike, *, views: str | None = None) -> float:
        """Return the accuracy on images with these labels, as a fraction of 1."""
        predicted, truth = self.predict(images, views=views), np.asarray(plain_values(labels, "labels"))
        if truth.shape != predicted.shape:
            raise DataError(f"labels must have shape {predicted.shape}, one per image, got {truth.shape}.")
        return float(np.mean(predicted == truth))

    @torch.inference_mode()
    def outputs(
        self, images: Array | Paths, *, layers: int | None = None, views: str | None = None
    ) -> NDArray[np.floating[Any]]:
        """Return the outputs Ỹ, shape (n, C); see :meth:`predict`. Memory does not grow with the number of images."""
        array, network = self._checked(images), self.network.averaged_over(views)
        chunk = network.stack.chunk
        size = chunk * max(1, NUMBERS // (chunk * prod(network.image_shape)))  # one warning for several chunks
        outputs = torch.empty(len(array), network.classes, dtype=network.layers[0].weights.dtype)
        for start, part in self.chunks(array, size):
            outputs[start : start + len(part)] = network.outputs(part, layers)
        return outputs.numpy()

    @torch.inference_mode()
    def stages(self, images: Array | Paths, keep: Callable[[Tensor], Tensor], views: str | None = None) -> Tensor:
        """Return ``keep`` of Ỹ⁽¹⁾, Ỹ⁽²⁾, …, each (chunk, C) and without the readout, on the CPU, (layers, n, …).

        Only what is kept is held.
        """
        array, network = self._checked(images), self.network.averaged_over(views)
        used, device = network.used_layers, network.layers[0].weights.device
        stages = torch.empty(0)
        for start, part in self.chunks(array, network.stack.chunk):
            network.warn_of_other_units(part)
            for layer, output in enumerate(islice(network.stack.staged_outputs(part.to(device)), used)):
                kept = keep(refuse_infinite(output))
                if not len(stages):
                    stages = torch.empty(used, len(array), *kept.shape[1:], dtype=kept.dtype)
                stages[layer, start : start + len(part)] = kept
        return stages

    def explain(self, image: Array | Paths) -> Explanation:
        """Explain the prediction of one image, which may be given alone, as a batch of one, or as a file.

        Training images are counted in the order of the training, without those of the validation set or of weight 0.
        """
        given: Any = np.asarray(image) if isinstance(image, list) and np.ndim(image) > 1 else image
        shape = tuple(getattr(given, "shape", ()))
        single = self.layout.matches(shape) or shape == self.network.image_shape
        array = self._checked(given[None] if single else given)
        if len(array) != 1:
            raise DataError(f"image must be one image, got {len(array)}.")
        ((_, pixels),) = self.chunks(array, 1)
        return explain(self.network, pixels, self.class_names, self.about.get("training_files") or ())

    def chunks(self, images: Any, size: int) -> Iterator[tuple[int, Tensor]]:
        """Yield the start of each chunk of an array or of files, and its images (chunk, channels, height, width)."""
        for start in range(0, len(images), size):
            yield start, self._converted(images[start : start + size])

    def _converted(self, part: Any) -> Tensor:
        """Return a few images of an array, or of files, as the network takes them."""
        layout, shape = self.layout, self.network.image_shape
        if isinstance(part, list):
            part = layout.enlarged(read_like(part, layout.channels_first, self.preprocessing))
        elif layout.matches(tuple(part.shape[1:])) and not (layout.channels == "first" and part.shape[1:] == shape):
            part = layout.to_images(np.asarray(plain_values(part)))
        return as_images(part, shape)

    @property
    def preprocessing(self) -> dict[str, Any]:
        """Properties that new images must share with the training images (:func:`describe_images`)."""
        low, high = self.network.stack.image_range.ends
        recorded: dict[str, Any] | None = self.about.get("preprocessing")
        return recorded or {"pixels": "float32", "low": low, "high": high}

    def _checked(self, images: Any) -> Any:
        """Return images as an array or a tensor with an axis of images, or as a list of files."""
        files = listed_files(images)
        if files is not None:
            return files
        array = images if hasattr(images, "shape") else np.asarray(plain_values(images))
        if not self.layout.matches(tuple(array.shape[1:])):
            as_images(array[:1], self.network.image_shape)  # says what is wrong
        return array

    def __repr__(self) -> str:
        more = ", …" if len(self.labels) > 3 else ""
        return f"Model({self.network!r}, classes {', '.join(self.class_names[:3])}{more})"


def as_model(given: Any) -> Model:
    """Return a model unchanged, or that of a fitted estimator; raise ConfigError for anything else."""
    if isinstance(given, Model):
        return given
    if isinstance(getattr(given, "model_", None), Model):
        return given.model_  # type: ignore[no-any-return]
    if hasattr(given, "fit") and not isinstance(given, type):
        raise ConfigError(f"model must be a fitted ResCNetClassifier, got a {type(given).__name__}. Call fit first.")
    if isinstance(given, Network):
        raise ConfigError("model must have labels, got a network. Use rescnet.Model(network, history, labels).")
    kind = f"the class {given.__name__}" if isinstance(given, type) else f"an object of type {type(given).__name__}"
    raise ConfigError(f"model must be a Model or a fitted ResCNetClassifier, got {kind}. Pass the model first.")


def describe_images(images: Any, layout: ImageLayout | None = None) -> dict[str, Any]:
    """Return the properties that new images must share with the training images (n, channels, height, width).

    These are ``pixels`` (the number type), ``low``, ``high``, ``channels``, ``height``, ``width`` and ``colour`` (grey,
    rgb or other), and the ``layout`` that they were given in.

    Examples
    --------
    >>> describe_images(torch.tensor([[[[0, 9]]]], dtype=torch.uint8))["colour"]
    'grey'
    """
    _, channels, height, width = images.shape
    return {
        "pixels": str(images.dtype).removeprefix("torch."),
        "low": float(images.min()),
        "high": float(images.max()),
        "channels": int(channels),
        "height": int(height),
        "width": int(width),
        "colour": {1: "grey", 3: "rgb"}.get(int(channels), "other"),
        **({} if layout is None else {"layout": {"shape": list(layout.shape), "channels": layout.channels}}),
    }


def describe_run(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Return facts about a run: versions, name of the device, and date with time zone."""
    device = torch.device(device)
    return {
        "versions": {"rescnet": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device} ({platform.machine()})",
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
