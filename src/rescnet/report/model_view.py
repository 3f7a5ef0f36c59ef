"""The inputs of a report, checked before any work: a trained model, and the images to evaluate it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..data import Dataset, ImageSet
from ..network.history import History, LayerRecord
from ..network.network import Network


class TrainedModel(Protocol):
    """A network with its history and class names, e.g. ``rescnet.Model``."""

    @property
    def network(self) -> Network:
        """The layers."""

    @property
    def history(self) -> History:
        """One record per layer."""

    @property
    def class_names(self) -> Sequence[str]:
        """Names of the classes, in the order of the outputs."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Facts about the training. The report uses ``dataset``, ``preset`` and ``command``, and lists the others."""


@dataclass(frozen=True)
class TruncatedModel:
    """A model with only the layers it predicts with. Its history may be longer."""

    network: Network
    history: History
    class_names: Sequence[str]
    about: Mapping[str, Any]


def without_unused_layers(model: TrainedModel) -> TrainedModel:
    """Return the model without the layers after its prediction depth."""
    network = model.network
    if network.used_layers == len(network.layers):
        return model
    used = network.first_layers(network.used_layers)
    return TruncatedModel(used, model.history, model.class_names, model.about)


@dataclass(frozen=True)
class EvaluationImages:
    """The images a network is evaluated on; ``split`` is "test" or "validation"."""

    split: str
    images: ImageSet


def evaluation_images(model: TrainedModel, dataset: Dataset | None) -> EvaluationImages | None:
    """Return the test images, or else the validation images; refuse images that do not match the model."""
    if dataset is None:
        return None
    found = dataset.test or dataset.validation
    if found is None:
        raise ValueError(
            f"{dataset.name} must have test or validation images, got neither. Use another data set, or leave out "
            "images (--without-images; in Python, dataset=None)."
        )
    if found.shape != model.network.image_shape:
        raise ValueError(
            f"{dataset.name} must have images of the network's shape {model.network.image_shape} "
            f"(channels, height, width), got {found.shape}. Use the data set of the training."
        )
    if tuple(dataset.class_names) != tuple(model.class_names):
        raise ValueError(
            f"{dataset.name} must have the model's classes {_first_names(model.class_names)}, "
            f"got {_first_names(dataset.class_names)}. Use the data set of the training."
        )
    return EvaluationImages("test" if dataset.test else "validation", found)


def check_model(model: TrainedModel) -> None:
    """Refuse a model without layers, or with a wrong number of class names."""
    network = model.network
    if not len(network.layers):
        raise ValueError("network must have at least one layer, got none. Train it first.")
    if len(model.class_names) != network.classes:
        raise ValueError(f"class_names must have {network.classes} names, one per class, got {len(model.class_names)}.")


def layer_records(model: TrainedModel) -> list[LayerRecord]:
    """Return one record per layer of the network, or none if the history is shorter."""
    layers = len(model.network.layers)
    return model.history.records[:layers] if len(model.history) >= layers else []


def _first_names(names: Sequence[str], limit: int = 4) -> str:
    return ", ".join(names[:limit]) + (f", … ({len(names)})" if len(names) > limit else "")
