"""Comparison of several models on the same images: accuracy, time, memory and size of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any

import torch

from ..base.errors import ConfigError, DataError
from ..base.intervals import wilson_interval
from ..base.text import check_known
from ..config.choices import Config
from ..config.compute import ComputeOptions
from ..config.defaults import Quality, check_quality
from ..config.network import NetworkConfig
from ..config.option import validated
from ..config.presets import check_names
from ..data import Dataset, ImageSet
from ..data.splits import first_of_each_class, stratified_split
from ..family.config import FamilyConfig, make_member, member_names
from ..family.fitting import fit_member
from ..network.device import choose_device
from ..network.inputs import as_images, as_labels
from ..network.memory import memory_budget
from ..training.stopwatch import Stopwatch, free_memory
from ..training.train import train
from .baselines import BASELINES, Predict

RESCNET, ALL = "rescnet", "all"
Settings = tuple[Config, Quality] | FamilyConfig | None  # of a model
Used = NetworkConfig | FamilyConfig | None


@dataclass(frozen=True)
class Contestant:
    """A model by its name, and options over its preset; the label is the name with its options, as the user gave it.

    Options are those of :class:`rescnet.NetworkConfig`, ``preset`` and ``quality`` for ResCNet, and of
    :class:`rescnet.family.FamilyConfig` for its family. A baseline has none.
    """

    label: str
    name: str
    options: dict[str, Any]

    def configure(self, dataset: Dataset, seed: int) -> Settings:
        """Return the configuration for a data set; None for a baseline."""
        options = self.options | {"seed": seed}
        if self.name in BASELINES:
            return None
        if self.name != RESCNET:
            return make_member(self.name, dataset.shape, options)
        quality = check_quality(options.pop("quality", "balanced"))
        config = Config(**options)
        config.complete(dataset.shape, len(dataset.class_names), len(dataset.train), quality)  # checks the options
        return config, quality

    def fit(self, config: Settings, images: ImageSet, compute: ComputeOptions, seed: int) -> tuple[Predict, int, Used]:
        """Fit the model to images; return its prediction, its bytes, and the configuration that was used."""
        device = choose_device(compute.device)
        if config is None:
            return *BASELINES[self.name](images.images, images.labels, device, seed), None
        pixels = as_images(images.images)
        labels = as_labels(images.labels, pixels)
        if isinstance(config, tuple):
            model = train(pixels, labels, config[0], quality=config[1], compute=compute)
            return lambda new: torch.from_numpy(model.predict(new)), model.network.nbytes, model.network.config
        # A class without an image has no score: fit the classes that occur, and map their numbers back.
        present, numbered = torch.unique(labels, return_inverse=True)
        member = fit_member(pixels, numbered, len(present), config, device, memory_budget(compute.max_memory, device))
        size = sum(tensor.nbytes for tensor in member.tensors())
        return lambda new: present[member.outputs(as_images(new, member.image_shape)).argmax(1).cpu()], size, config


def model_names() -> list[str]:
    """Return the names of all models."""
    return [RESCNET, *BASELINES, *member_names()]


def parse_models(text: str) -> list[Contestant]:
    """Read models: names separated by commas, each with options after colons; ``all`` stands for every name.

    Numbers of a list are separated by slashes: ``pcanet:filters=8/6``.

    Examples
    --------
    >>> [contestant.label for contestant in parse_models("pcanet, rescnet:layers=5:filters=20")]
    ['pcanet', 'rescnet:layers=5:filters=20']
    """
    words = [word.strip() for word in text.split(",")]
    return [_parse_one(name) for word in words for name in (model_names() if word == ALL else [word])]


def _parse_one(text: str) -> Contestant:
    name, *words = text.split(":")
    check_known("model", name, model_names())
    options: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"option of {name} must be key=value, got {word!r}: write for example filters=20.")
        options[key] = {"true": True, "false": False}.get(value.strip(), value.strip().replace("/", " "))
    if options and name in BASELINES:
        raise DataError(f"{name} must have no options, got {next(iter(options))!r}. Leave it out.")
    own = {"preset", "quality"} if name == RESCNET else set()
    owner = NetworkConfig if name == RESCNET else FamilyConfig
    check_names({key: value for key, value in options.items() if key not in own}, name, owner)
    options = {key: value if key in own else validated(key, value, owner) for key, value in options.items()}
    return Contestant(text, name, options)


@dataclass(frozen=True)
class Row:
    """Results of one model; means over splits."""

    model: str  # its name, with the options given over its preset
    accuracy: float | None = None  # fraction of 1; None if it failed
    deviation: float | None = None  # standard deviation over splits; None for one split
    interval: tuple[float, float] | None = None  # 95 % interval of the accuracy, for the images of one split
    seconds: float = 0.0  # of fitting
    predict_seconds: float = 0.0  # for the images it is measured on
    peak_memory: int = 0  # bytes of the process, or of the GPU's memory
    model_bytes: int = 0
    error: str = ""  # reason of a failure
    config: dict[str, Any] | None = None  # of the last split; None for a baseline


def split_of(dataset: Dataset, held_out: float, seed: int) -> tuple[ImageSet, ImageSet]:
    """Return the training images and those a model is measured on: a share of them, or the test images if it is 0."""
    if not held_out:
        assert dataset.test is not None
        return dataset.train, dataset.test
    kept, held = stratified_split(dataset.train.labels, held_out, seed)
    return dataset.train.subset(kept), dataset.train.subset(held)


def compare_models(
    dataset: Dataset, contestants: list[Contestant], held_out: float, splits: int, seed: int, compute: ComputeOptions
) -> Iterator[Row]:
    """Yield the row of each model when it is done.

    Models are measured on a share ``held_out`` of the training images, or on the test images if it is 0. Several splits
    have the seeds ``seed``, ``seed + 1``, …
    """
    configs = [contestant.configure(dataset, seed) for contestant in contestants]  # all are checked before any work
    for contestant, config in zip(contestants, configs, strict=True):
        watch, accuracies, size = Stopwatch(choose_device(compute.device)), [], 0
        used: Used = None
        try:
            for number in range(splits):
                training, test = split_of(dataset, held_out, seed + number)
                free_memory()
                with watch.time("fit"):
                    predict, size, used = contestant.fit(config, training, compute, seed)
                with watch.time("predict"):
                    predicted = predict(test.images).cpu().numpy()
                accuracies.append(float((predicted == test.labels).mean()))
                del predict  # with its network
        except (ValueError, ArithmeticError, MemoryError, RuntimeError) as error:  # the other models still run
            yield Row(contestant.label, error=(str(error) or "it is out of memory").splitlines()[0])
            continue
        yield Row(
            contestant.label,
            accuracy=fmean(accuracies),
            deviation=pstdev(accuracies) if splits > 1 else None,
            interval=wilson_interval(fmean(accuracies), len(test)),
            seconds=watch.seconds["fit"] / splits,
            predict_seconds=watch.seconds["predict"] / splits,
            peak_memory=max(watch.memory.values()),
            model_bytes=size,
            config=used.to_dict() if used else None,
        )


def learning_curve(
    dataset: Dataset, contestants: list[Contestant], images_per_class: Sequence[int], seed: int, compute: ComputeOptions
) -> Iterator[tuple[int, Row]]:
    """Yield images per class, ascending, and the row of each model trained on the first images of each class."""
    chosen = {images: first_of_each_class(dataset.train.labels, images) for images in sorted(images_per_class)}
    for images, indices in chosen.items():
        part = replace(dataset, train=dataset.train.subset(indices))
        for row in compare_models(part, contestants, 0.0, 1, seed, compute):
            yield images, row
