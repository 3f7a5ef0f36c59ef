"""Labelled images and wishes → a trained network: check, hold out, choose, train, and train again on all images."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..config.choices import Config
from ..config.compute import ComputeOptions
from ..config.defaults import Quality, check_quality
from ..config.network import NetworkConfig
from ..config.presets import check_asked_options
from ..data.splits import stratified_split
from ..errors import ConfigError
from ..model import Model
from ..network.history import History, StopReason
from ..network.inputs import Array
from ..network.network import Network
from ..text import count, show_seconds
from .choice import Choice, choose_network, choose_on_rank0
from .data import LabelledImages, weighted_images
from .distributed.workers import Workers
from .listener import Listener
from .run import TrainingRun

VALIDATION_FRACTION = 0.1  # of the training images of each class, where early stopping needs validation images
SHORTEST = 1.0  # seconds that are left for training, however long the choice took


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """Wishes of a user for a training run, besides its images."""

    config: Config | NetworkConfig = field(default_factory=Config)
    quality: Quality = "balanced"  # of the default network
    time_limit: float | None = None  # seconds
    began: float = field(default_factory=monotonic)  # when the time limit began to count
    validation_fraction: float | None = None  # None: VALIDATION_FRACTION with early stopping, else 0
    refit: bool = False  # train again on all images, with the best validation depth

    def __post_init__(self) -> None:
        check_quality(self.quality)
        fixed = isinstance(self.config, NetworkConfig) or self.config.preset is not None
        if fixed and self.quality != "balanced":
            what = "a NetworkConfig" if isinstance(self.config, NetworkConfig) else f"preset {self.config.preset!r}"
            raise ConfigError(f"quality must be left out with {what}, which decides it, got {self.quality!r}.")

    def fraction(self, patience: int) -> float:
        """Return the fraction of the training images that become validation images, if there are none."""
        if self.validation_fraction is not None:
            return self.validation_fraction
        return VALIDATION_FRACTION if patience else 0.0

    @property
    def passed(self) -> float:
        """Seconds of the time limit that have passed."""
        return monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """Seconds of the time limit that are left for training; None without a limit."""
        return None if self.time_limit is None else max(SHORTEST, self.time_limit - self.passed)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training, with the ``model`` of the finished layers."""

    model: Model

    def __init__(self, reason: str, network: Network, history: History) -> None:
        finished = count(len(history), "layer is", "layers are")
        super().__init__(f"{reason}: {finished} finished, see model")
        self.reason, self.network, self.history = reason, network, history


def fit(
    images: Array,
    labels: Array,
    wishes: Wishes,
    *,
    validation: LabelledImages | None = None,
    test: LabelledImages | None = None,
    weights: Array | None = None,
    compute: ComputeOptions | None = None,
    listener: Listener | None = None,
    workers: Workers | None = None,
    start: tuple[Network, History] | None = None,
    readout_start: Tensor | None = None,
) -> tuple[Network, History]:
    """Train a network on images with labels counted from 0.

    :class:`~rescnet.training.run.TrainingRun` describes the other parameters. With ``start`` and no preset, the
    configuration is that of the network, but for the options set.
    """
    compute, workers, listener = compute or ComputeOptions(), workers or Workers(), listener or Listener()
    checked, numbers, _ = seen = weighted_images(images, labels, weights)
    machine: dict[str, Any] = {"compute": compute, "workers": workers, "listener": listener}

    config = _known_config(wishes, checked, numbers, start)
    held = _hold_out(numbers, wishes, config) if validation is None else None
    if wishes.refit:
        _check_refit(wishes, has_validation=validation is not None or held is not None, continues=start is not None)
    # Arrays are handed on as they are, if all of their images train: maps of a file need not be copied.
    training: tuple[Any, Any, Any] = (images, labels, weights)
    if held is not None:
        kept = np.setdiff1d(np.arange(len(numbers)), held)
        training, validation = _some(seen, kept), _some((checked, numbers, None), held)[:2]
    choice = Choice(config) if config else _choose(wishes, training, validation, compute, workers)
    if isinstance(wishes.config, Config):
        check_asked_options(choice.config, wishes.config.options)
    listener.chosen(replace(choice, held_out=held))

    run = _train(
        *training,
        choice.config,
        wishes,
        validation=validation,
        test=test,
        start=start,
        readout_start=readout_start,
        **machine,
    )
    if not wishes.refit:
        return run
    layers, everything = run[0].used_layers, seen
    if held is None and validation is not None:
        everything = _joined(seen, weighted_images(*validation, None))
    note = f"training again on all {len(everything[1]):,} images, with {count(layers, 'layer', 'layers')}"
    again = Choice(replace(choice.config, layers=layers, patience=0), (note,), refits=True)
    listener.chosen(again)
    return _train(*everything, again.config, wishes, test=test, **machine)


def _known_config(
    wishes: Wishes, images: Tensor, labels: Tensor, start: tuple[Network, History] | None
) -> NetworkConfig | None:
    """Return the configuration if no trial on the images decides about it."""
    asked = wishes.config
    if isinstance(asked, NetworkConfig):
        return asked
    if asked.preset is not None:
        _, channels, height, width = images.shape
        return asked.complete((channels, height, width), classes=int(labels.max()) + 1)
    return None if start is None else replace(start[0].config, **asked.options)


def _hold_out(labels: Tensor, wishes: Wishes, config: NetworkConfig | None) -> NDArray[np.intp] | None:
    """Return the indices of the training images that become validation images; None if there are none."""
    options = vars(config) if config is not None else wishes.config.options  # type: ignore[union-attr]
    fraction = wishes.fraction(options.get("patience", 0))
    if fraction == 0:
        return None
    return stratified_split(labels.numpy(), fraction, options.get("seed", 0))[1]


def _check_refit(wishes: Wishes, has_validation: bool, continues: bool) -> None:
    if wishes.time_limit is not None or continues:
        raise ConfigError("refit must not be used with a time_limit or with layers to start from. Leave one out.")
    if not has_validation:
        raise ConfigError("refit must be used with validation images, or with early stopping. Leave it out.")


def _choose(
    wishes: Wishes,
    training: tuple[Any, Any, Any],
    validation: LabelledImages | None,
    compute: ComputeOptions,
    workers: Workers,
) -> Choice:
    """Return the default network for the training images, changed by the options set, by trials on some of them."""
    assert isinstance(wishes.config, Config)
    options = wishes.config.options
    images, labels, _ = weighted_images(*training)
    held = None if validation is None else weighted_images(*validation, None)[:2]

    def choose() -> Choice:
        facts = wishes.quality, wishes.time_limit, options, held, wishes.passed, workers
        return choose_network(images, labels, compute, *facts)

    began = monotonic()
    choice = choose_on_rank0(workers, choose)
    if not choice.notes:
        return choice
    return replace(choice, notes=(*choice.notes, f"choice of the network: {show_seconds(monotonic() - began)}"))


def _train(
    images: Array, labels: Array, weights: Array | None, config: NetworkConfig, wishes: Wishes, **settings: Any
) -> tuple[Network, History]:
    """Train from the first to the last layer; raise Interrupted with the finished layers at Ctrl-C."""
    run = TrainingRun(images, labels, config, weights=weights, time_limit=wishes.seconds_left, **settings)
    try:
        for _ in run:
            pass
    except KeyboardInterrupt as interrupt:
        done = len(run.history)
        if not done:
            raise
        run.history.stopped = StopReason.INTERRUPTED
        used = run.network.used_layers if run.network.readout else done
        network = replace(run.network.first_layers(done), used_layers=used)
        raise Interrupted(str(interrupt) or "interrupted", network, run.history) from None
    return run.network, run.history


def _some(data: tuple[Tensor, Tensor, Tensor | None], chosen: NDArray[np.intp]) -> tuple[Any, Any, Any]:
    """Return the chosen images, labels and weights."""
    indices = torch.from_numpy(chosen)
    images, labels, weights = data
    return images[indices], labels[indices], None if weights is None else weights[indices]


def _joined(
    one: tuple[Tensor, Tensor, Tensor | None], other: tuple[Tensor, Tensor, Tensor | None]
) -> tuple[Any, Any, Any]:
    """Return the images and labels of both; those without weights have weight 1."""
    weights = None
    if one[2] is not None:
        weights = torch.cat([one[2], torch.ones(len(other[1]), dtype=one[2].dtype)])
    return torch.cat([one[0], other[0]]), torch.cat([one[1], other[1]]), weights
