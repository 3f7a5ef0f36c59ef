"""What a report is about: a trained model, and the images to show it on, checked before any work starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..data import Dataset, ImageSet
from ..network.history import History, LayerRecord
from ..network.network import Network


class TrainedModel(Protocol):
    """A network and what is known of it; ``rescnet.Model`` is one."""

    @property
    def network(self) -> Network:
        """The layers."""

    @property
    def history(self) -> History:
        """One record a layer."""

    @property
    def class_names(self) -> Sequence[str]:
        """What the classes are called, in the order of the outputs."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Where and how it was trained; the report knows ``dataset``, ``preset``, ``command``, shows all the rest."""


@dataclass(frozen=True)
class UsedLayers:
    """A model cut to the layers its predictions go through; its history may be longer."""

    network: Network
    history: History
    class_names: Sequence[str]
    about: Mapping[str, Any]


def as_used(model: TrainedModel) -> TrainedModel:
    """Return the model as it predicts: without the layers after its depth."""
    network = model.network
    if network.used_layers == len(network.layers):
        return model
    used = network.first_layers(network.used_layers)
    return UsedLayers(used, model.history, model.class_names, model.about)


@dataclass(frozen=True)
class Shown:
    """The images a network is shown on.

    Attributes
    ----------
    split : {"test", "validation"}
    images : ImageSet
    """

    split: str
    images: ImageSet


def images_to_show(model: TrainedModel, dataset: Dataset | None) -> Shown | None:
    """Return the test images, else the validation images; refuse, in one sentence, images of another kind."""
    if dataset is None:
        return None
    found = dataset.test or dataset.validation
    if found is None:
        raise ValueError(
            f"{dataset.name} has neither test nor validation images: give a set that has some, or ask for a report "
            "without images (--without-images; in Python no dataset)."
        )
    if found.shape != model.network.image_shape:
        raise ValueError(
            f"{dataset.name} has images of shape {found.shape} but the network takes {model.network.image_shape} "
            "(channels, height, width): give the dataset it was trained on."
        )
    if tuple(dataset.class_names) != tuple(model.class_names):
        theirs, ours = _first_names(dataset.class_names), _first_names(model.class_names)
        raise ValueError(
            f"{dataset.name} has the classes {theirs} but the model knows {ours}: give the dataset it was trained on."
        )
    return Shown("test" if dataset.test else "validation", found)


def check_model(model: TrainedModel) -> None:
    """Refuse, in one sentence, a model without layers or with a name missing."""
    network = model.network
    if not len(network.layers):
        raise ValueError("the network has no layers: train it before reporting on it.")
    if len(model.class_names) != network.classes:
        raise ValueError(
            f"the model names {len(model.class_names)} classes but its network has {network.classes}: name each once."
        )


def records_of(model: TrainedModel) -> list[LayerRecord]:
    """Return one record a layer of the network, or none where the history does not reach that far."""
    layers = len(model.network.layers)
    return model.history.records[:layers] if len(model.history) >= layers else []


def _first_names(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f", … ({len(names)})" if len(names) > most else "")
