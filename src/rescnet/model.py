"""A trained model: the network, its history, the names of its classes, and facts about the run."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .data.file_inputs import Paths, listed_files, read_like
from .explain.explain import explain
from .explain.explanation import Explanation
from .network.history import History
from .network.inputs import Array
from .network.network import Network
from .network.probabilities import network_probabilities


@dataclass(frozen=True, repr=False, eq=False)
class Model:
    """A network with its history, its class names, and facts about the run.

    ``about`` are facts for JSON, e.g. ``dataset``, ``command``, ``versions``, ``device``, ``seed``, ``date``,
    ``stopped`` and ``preprocessing`` (:func:`describe_images`). All of them are optional.
    """

    network: Network
    history: History  #: one record per layer of the network
    class_names: tuple[str, ...]  #: C names, in the order of the network's outputs
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.class_names) != self.network.classes:
            raise ValueError(f"class_names must be {self.network.classes}, one per class, got {len(self.class_names)}.")
        if len(self.history) != len(self.network.layers):
            raise ValueError(
                f"history must have {len(self.network.layers)} records, one per layer, got {len(self.history)}."
            )

    def predict(self, images: Array | Paths) -> NDArray[np.str_]:
        """Return the class name of each image, shape (n,).

        Images have shape (n, channels, height, width). Instead they may be the path of an image file or of a folder, or
        a list of such files, which are fitted to the training images.
        """
        return np.take(np.array(self.class_names), self.network.predict(self._read(images)).cpu().numpy())

    def predict_proba(self, images: Array | Paths) -> NDArray[np.float64]:
        """Return a probability for each class, in the order of ``class_names``, shape (n, C).

        With readout ``"kernel"`` they are calibrated (:mod:`rescnet.network.probabilities`).
        """
        return network_probabilities(self.network, self.network.outputs(self._read(images)).cpu()).numpy()

    def explain(self, image: Array | Paths) -> Explanation:
        """Explain the prediction of one image (channels, height, width), in the units of the training images.

        It may be the path of an image file.
        """
        return explain(self.network, self._read(image), self.class_names, self.about.get("training_files") or ())

    @property
    def preprocessing(self) -> dict[str, Any]:
        """Properties that new images must share with the training images (:func:`describe_images`)."""
        low, high = self.network.stack.image_range.ends
        recorded: dict[str, Any] | None = self.about.get("preprocessing")
        return recorded or {"pixels": "float32", "low": low, "high": high}

    def _read(self, images: Any) -> Any:
        files = listed_files(images)
        return images if files is None else read_like(files, self.network.image_shape, self.preprocessing)

    def __repr__(self) -> str:
        more = ", …" if len(self.class_names) > 3 else ""
        return f"Model({self.network!r}, classes {', '.join(self.class_names[:3])}{more})"


def as_model(given: Any) -> Model:
    """Return a model unchanged, or that of an estimator with ``to_model``; raise ValueError for anything else."""
    if isinstance(given, Model):
        return given
    if hasattr(given, "to_model") and not isinstance(given, type):
        made: Model = given.to_model()
        return made
    make = "rescnet.Model(network, history, class_names)"
    if isinstance(given, Network) or (isinstance(given, tuple) and given and isinstance(given[0], Network)):
        raise ValueError(f"model must have class names, got a network. Use {make}.")
    kind = f"the class {given.__name__}" if isinstance(given, type) else f"an object of type {type(given).__name__}"
    raise ValueError(f"model must be a Model or a fitted ResCNetClassifier, got {kind}. Use {make}.")


def describe_images(images: Any) -> dict[str, Any]:
    """Return the properties that new images must share with the training images (n, channels, height, width).

    These are ``pixels`` (the number type), ``low``, ``high``, ``channels``, ``height``, ``width`` and ``colour`` (grey,
    rgb or other).

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
    }


def describe_run(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Return facts about a run: versions, name of the device, and date with time zone."""
    from . import __version__

    device = torch.device(device)
    return {
        "versions": {"rescnet": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device} ({platform.machine()})",
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
