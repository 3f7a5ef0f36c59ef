"""What can be compared: ResCNet and every member of the family, each with options over its preset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ...config.compute import ComputeOptions
from ...config.presets import check_names, make_config, preset_names
from ...family.config import FamilyConfig, make_member, member_names

RESCNET = "rescnet"


@dataclass(frozen=True)
class Fitted:
    """A model that has learnt.

    Attributes
    ----------
    predict : callable
        From images (n, channels, height, width) to classes (n,).
    size : int
        Bytes of all that was learnt.
    """

    predict: Callable[[NDArray[Any]], Tensor]
    size: int


@dataclass(frozen=True)
class Contestant:
    """A model by its name, and options over its preset.

    Attributes
    ----------
    label : str
        The name with its options, as it was asked for.
    name : str
    options : dict
        Keys of :class:`rescnet.NetworkConfig` for ResCNet, of :class:`rescnet.family.FamilyConfig` for the others.
    """

    label: str
    name: str
    options: dict[str, Any]

    def configure(self, dataset: str, image_shape: tuple[int, int, int], classes: int, seed: int) -> Any:
        """Return the configuration for a data set: ResCNet's own preset of it, or what suits its images."""
        options = self.options | {"seed": seed}
        if self.name != RESCNET:
            return make_member(self.name, image_shape, options)
        preset = dataset if dataset in preset_names() else None
        return make_config(preset, image_shape=image_shape, classes=classes, **options)

    def fit(self, config: Any, images: NDArray[Any], labels: NDArray[Any], compute: ComputeOptions) -> Fitted:
        """Learn from images (n, channels, height, width) and their classes (n,)."""
        if isinstance(config, FamilyConfig):
            return _fit_family(config, images, labels, compute)
        from ...training.train import train

        network, _ = train(images, labels, config, compute=compute)
        return Fitted(network.predict, network.nbytes)


def _fit_family(config: FamilyConfig, images: NDArray[Any], labels: NDArray[Any], compute: ComputeOptions) -> Fitted:
    from ...family.fitting import fit_member
    from ...network.device import choose_device
    from ...network.inputs import as_images, as_labels
    from ...network.memory import memory_budget

    device = choose_device(compute.device)
    checked = as_images(images)
    targets = as_labels(labels, checked)
    # A class without an image has no score: the classes that are there are numbered, and named again afterwards.
    present, numbered = torch.unique(targets, return_inverse=True)
    budget = memory_budget(compute.memory, device)
    network = fit_member(checked, numbered, len(present), config, device, budget)
    size = sum(tensor.nbytes for tensor in network.tensors())
    return Fitted(lambda new: present[network.outputs(as_images(new, network.image_shape)).argmax(1)], size)


def model_names() -> list[str]:
    """Return all that can be compared."""
    return [*member_names(), RESCNET]


def parse_models(text: str) -> list[Contestant]:
    """Read models: names parted by commas, each with options after colons; ``all`` is every one.

    Numbers of a list are parted by slashes: ``pcanet:filters=8/6``.

    Examples
    --------
    >>> [contestant.label for contestant in parse_models("pcanet, rescnet:layers=5:filters=20")]
    ['pcanet', 'rescnet:layers=5:filters=20']
    """
    names = model_names() if text.strip() == "all" else text.split(",")
    return [_parse_one(name.strip()) for name in names]


def _parse_one(text: str) -> Contestant:
    name, *words = text.split(":")
    if name not in model_names():
        near = get_close_matches(name, model_names(), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(model_names())}."
        raise ValueError(f"there is no model {name!r}: {hint}")
    options: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"the option {word!r} of {name} cannot be read: write it as key=value, as filters=20.")
        truth = {"true": True, "false": False}
        options[key] = truth.get(value.strip(), value.strip().replace("/", " "))
    check_names(options, name, *([FamilyConfig] if name != RESCNET else []))
    return Contestant(text, name, options)
