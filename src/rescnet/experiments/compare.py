"""Comparison of several models on the same images: accuracy, time, memory and size of each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any, get_args

import torch
from numpy.typing import NDArray

from ..config.compute import ComputeOptions
from ..config.defaults import check_quality
from ..config.grammars import Augmentation
from ..config.network import NetworkConfig
from ..config.presets import check_names, make_config
from ..data import Dataset, ImageSet
from ..data.archives import PUBLIC_SETS
from ..data.splits import stratified_split
from ..family.config import FamilyConfig, make_member, member_names, preset_of
from ..family.fitting import fit_member
from ..network.device import choose_device
from ..network.inputs import as_images, as_labels
from ..network.memory import memory_budget
from ..numerics.intervals import wilson_interval
from ..text import check_known
from ..training.choice import choose_network
from ..training.stopwatch import Stopwatch, free_memory
from ..training.train import train
from .baselines import Baseline, BaselineConfig, Predict, fit_baseline

RESCNET = "rescnet"
BASELINES: tuple[str, ...] = get_args(Baseline)
ON_REQUEST = ("resnet18",)  # takes minutes, so that "all" leaves it out
Config = NetworkConfig | FamilyConfig | BaselineConfig
PUBLISHED: dict[str, dict[str, float]] = {
    "pcanet": {"cifar10": 77.14, "cifar100": 51.62, "mnist": 99.34, "tiny-imagenet": 30.0},
    "ldanet": {"cifar10": 78.33, "mnist": 99.38},
    "dfsnet-3": {"cifar10": 81.06},
    "multilayer-pcanet": {"cifar10": 81.72, "cifar100": 57.86, "mnist": 99.40, "tiny-imagenet": 40.87},
    "rescnet": {"cifar10": 87.54, "cifar100": 64.9, "mnist": 99.52, "tiny-imagenet": 44.37},
}
"""Test accuracy in percent in the model's own paper."""


@dataclass(frozen=True)
class Contestant:
    """A model by its name, and options over its preset; the label is the name with its options, as the user gave it.

    Options are those of :class:`rescnet.NetworkConfig`, ``preset`` and ``quality`` for ResCNet, of
    :class:`rescnet.family.FamilyConfig` for its family, and of :class:`BaselineConfig` for a baseline.
    """

    label: str
    name: str
    options: dict[str, Any]

    def configure(self, dataset: Dataset, seed: int) -> Config:
        """Return the configuration for a data set."""
        options = self.options | {"seed": seed}
        if self.name in BASELINES:
            return BaselineConfig(name=self.name, **options)  # type: ignore[arg-type]
        if self.name != RESCNET:
            return make_member(self.name, dataset.shape, options)
        return make_config(
            options.pop("preset", None),
            image_shape=dataset.shape,
            classes=len(dataset.class_names),
            images=len(dataset.train),
            quality=options.pop("quality", None),
            **options,
        )

    def choose(self, training: ImageSet, config: Config, compute: ComputeOptions) -> Config:
        """Return the configuration for training images: ResCNet without a preset has a trial on some of them."""
        if not isinstance(config, NetworkConfig) or "preset" in self.options:
            return config
        given = {name: value for name, value in self.options.items() if name != "quality"} | {"seed": config.seed}
        quality, images = check_quality(self.options.get("quality", "balanced")), as_images(training.images)
        labels = as_labels(training.labels, images)
        return choose_network(images, labels, compute, quality, None, given).config

    def changes(self, dataset: Dataset, before: Config, after: Config) -> str:
        """Return in words where the settings come from, and what was changed for these images."""
        if isinstance(after, BaselineConfig):
            return after.describe(len(dataset.train))
        if isinstance(after, FamilyConfig):
            _, kind, sizes = preset_of(self.name, dataset.shape)
            return f"sizes of {kind} images: {_options(sizes)}" if sizes else ""
        asked = before.to_dict()
        chosen = _options({name: value for name, value in after.to_dict().items() if value != asked[name]})
        start = f"preset {preset}" if (preset := self.options.get("preset")) else "settings for these images"
        return f"{start}; chosen in training: {chosen}" if chosen else start


def _options(values: dict[str, Any]) -> str:
    """Write options like ``--models`` reads them."""
    lists = {name: "/".join(map(str, value)) if isinstance(value, list) else value for name, value in values.items()}
    return ":".join(f"{name}={value}" for name, value in lists.items())


def _fit(
    config: Config, images: NDArray[Any], labels: NDArray[Any], compute: ComputeOptions
) -> tuple[Predict, int, Config]:
    """Fit a model to images (n, channels, height, width) and classes (n,); return also bytes and settings used."""
    device = choose_device(compute.device)
    if isinstance(config, BaselineConfig):
        return *fit_baseline(config, images, labels, device), config
    if isinstance(config, NetworkConfig):
        network, _ = train(images, labels, config, compute=compute)
        return network.predict, network.nbytes, network.config
    checked = as_images(images)
    # A class without an image has no score: fit the classes that occur, and map their numbers back.
    present, numbered = torch.unique(as_labels(labels, checked), return_inverse=True)
    member = fit_member(checked, numbered, len(present), config, device, memory_budget(compute.memory, device))
    size = sum(tensor.nbytes for tensor in member.tensors())
    return lambda new: present[member.outputs(as_images(new, member.image_shape)).argmax(1)], size, config


def model_names() -> list[str]:
    """Return the names of all models."""
    return [RESCNET, *BASELINES, *member_names()]


def parse_models(text: str) -> list[Contestant]:
    """Read models: names separated by commas, each with options after colons; ``all`` leaves out slow ones.

    Numbers of a list are separated by slashes: ``pcanet:filters=8/6``.

    Examples
    --------
    >>> [contestant.label for contestant in parse_models("pcanet, rescnet:layers=5:filters=20")]
    ['pcanet', 'rescnet:layers=5:filters=20']
    """
    every = [name for name in model_names() if name not in ON_REQUEST]
    names = every if text.strip() == "all" else text.split(",")
    return [_parse_one(name.strip()) for name in names]


def _parse_one(text: str) -> Contestant:
    name, *words = text.split(":")
    check_known("model", name, model_names())
    options: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"option of {name} must be key=value, got {word!r}: write for example filters=20.")
        options[key] = {"true": True, "false": False}.get(value.strip(), value.strip().replace("/", " "))
    owner = NetworkConfig if name == RESCNET else BaselineConfig if name in BASELINES else FamilyConfig
    own = {"preset", "quality"} if name == RESCNET else set()
    check_names({key: value for key, value in options.items() if key not in own}, name, owner)
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
    cpu_seconds: float = 0.0  # processor time of fitting, on all cores
    peak_memory: int = 0  # bytes of the process, or of the GPU's memory
    model_bytes: int = 0
    published: float | None = None  # test accuracy in its paper, on the same data set
    error: str = ""  # reason of a failure
    changed: str = ""  # where its settings come from, and what was changed for the images
    config: dict[str, Any] | None = None


def compare_models(
    dataset: Dataset, contestants: list[Contestant], held_out: float, splits: int, seed: int, compute: ComputeOptions
) -> Iterator[Row]:
    """Yield the row of each model when it is done.

    Models are measured on a share ``held_out`` of the training images, or on the test images if it is 0. Several splits
    have the seeds ``seed``, ``seed + 1``, … ResCNet runs first, then the baselines, then its family. The small CNN
    trains as long as ResCNet did, and networks flip images only if ResCNet does, unless their options say otherwise.
    """
    configs = [contestant.configure(dataset, seed) for contestant in contestants]  # all are checked before any work
    beside: dict[str, Any] = {}
    pairs = zip(contestants, configs, strict=True)
    for contestant, config in sorted(pairs, key=lambda pair: (pair[0].name in member_names(), pair[0].name != RESCNET)):
        if isinstance(config, BaselineConfig) and config.is_network:
            asked = contestant.options.keys() | ({"seconds"} if config.name != "cnn" else set())
            torch.optim.Adam([torch.zeros(1)])  # the first one imports for seconds, which are no training
            config = replace(config, **{name: value for name, value in beside.items() if name not in asked})
        row = _measure(dataset, contestant, config, held_out, range(seed, seed + splits), compute)
        if contestant.name == RESCNET and row.config:
            beside = {"seconds": row.seconds, "flips": Augmentation.parse(row.config["augment"]).flip}
        yield row


def split_of(dataset: Dataset, held_out: float, seed: int) -> tuple[ImageSet, ImageSet]:
    """Return the training images and those a model is measured on."""
    if not held_out:
        assert dataset.test is not None
        return dataset.train, dataset.test
    kept, held = stratified_split(dataset.train.labels, held_out, seed)
    return dataset.train.subset(kept), dataset.train.subset(held)


def _published(contestant: Contestant, dataset: Dataset) -> float | None:
    """Return the published share; None if a public set lacks training images, which makes it no comparison."""
    public, figure = PUBLIC_SETS.get(dataset.name), PUBLISHED.get(contestant.name, {}).get(dataset.name)
    partial = public is not None and len(dataset.train) < public.n_train
    return None if figure is None or partial else figure / 100


def _measure(
    dataset: Dataset, contestant: Contestant, config: Config, held_out: float, seeds: range, compute: ComputeOptions
) -> Row:
    watch = Stopwatch(choose_device(compute.device))
    accuracies, cpu_seconds, size, used = [], 0.0, 0, config
    for seed in seeds:
        training, test = split_of(dataset, held_out, seed)
        free_memory()
        processor = time.process_time()
        try:
            with watch.time("fit"):
                chosen = contestant.choose(training, config, compute)
                predict, size, used = _fit(chosen, training.images, training.labels, compute)
        except (ValueError, ArithmeticError, MemoryError, RuntimeError) as error:  # the other models still run
            said = str(error).splitlines()[0] if str(error) else "it is out of memory"
            return Row(contestant.label, error=said, config=config.to_dict())
        cpu_seconds += time.process_time() - processor
        with watch.time("predict"):
            predicted = predict(test.images).cpu().numpy()
        accuracies.append(float((predicted == test.labels).mean()))
        del predict  # with its network
    return Row(
        contestant.label,
        accuracy=fmean(accuracies),
        deviation=pstdev(accuracies) if len(seeds) > 1 else None,
        interval=wilson_interval(fmean(accuracies), len(test)),
        seconds=watch.seconds["fit"] / len(seeds),
        predict_seconds=watch.seconds["predict"] / len(seeds),
        cpu_seconds=cpu_seconds / len(seeds),
        peak_memory=max(watch.memory.values()),
        model_bytes=size,
        published=None if held_out else _published(contestant, dataset),
        changed=contestant.changes(dataset, config, used),
        config=used.to_dict(),
    )
