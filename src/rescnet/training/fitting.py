"""Labelled images and wishes → a trained network: check, hold out, choose, train, and train again on all images."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..base.errors import ConfigError
from ..base.text import count, show_seconds
from ..config.choices import Config
from ..config.compute import ComputeOptions
from ..config.defaults import Quality, check_quality
from ..config.network import NetworkConfig
from ..config.presets import check_asked_options
from ..data.splits import stratified_split
from ..model import Model
from ..network.history import History, StopReason, layers_to_use
from ..network.network import Network
from .choice import Choice, choose_network, choose_on_rank0
from .data import TrainingData
from .listener import Listener
from .run import TrainingRun
from .workers import Workers

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
        if not isinstance(self.config, Config | NetworkConfig):
            raise ConfigError(
                f"config must be a rescnet.Config or the name of a preset, got {type(self.config).__name__}. Write "
                "rescnet.Config(ridge=0.5), for example."
            )
        if not 0 <= (self.validation_fraction or 0) < 1:
            raise ConfigError(
                f"validation_fraction must be between 0 and 1, got {self.validation_fraction:g}. Use 0.2, for example."
            )
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
    """Ctrl-C during training, with the model of the finished layers."""

    def __init__(self, message: str, model: Model) -> None:
        super().__init__(message, model)
        self.model = model

    def __str__(self) -> str:
        return str(self.args[0])


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C during training, with the network of the finished layers, which may be the first of a refit."""

    def __init__(self, reason: str, network: Network, history: History) -> None:
        super().__init__(reason)
        self.network, self.history = network, history

    def with_model(self, labels: NDArray[Any], about: dict[str, Any]) -> Interrupted:
        """Return the exception that users receive."""
        finished = count(len(self.history), "layer is", "layers are")
        message = f"{self}: {finished} finished; they are in the model attribute of this exception"
        return Interrupted(message, Model(self.network, self.history, labels, about))


def fit(
    data: TrainingData,
    wishes: Wishes,
    *,
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
    machine: dict[str, Any] = {"compute": compute, "workers": workers, "listener": listener}

    config = _known_config(wishes, data, start)
    held, everything = _hold_out(data, wishes, config, start), data
    if held is not None:
        data = data.hold_out(torch.from_numpy(held))
    if wishes.refit:
        _check_refit(wishes, has_validation="validation" in data.others, continues=start is not None)
    choice = Choice(config) if config else _choose(wishes, data, compute, workers)
    if isinstance(wishes.config, Config):
        check_asked_options(choice.config, wishes.config.options)
    listener.chosen(replace(choice, held_out=held))

    network, history = _train(data, choice.config, wishes, start=start, readout_start=readout_start, **machine)
    if not wishes.refit:
        return network, history
    layers, everything = network.used_layers, everything.join_validation()
    note = f"training again on all {len(everything.labels):,} images, with {count(layers, 'layer', 'layers')}"
    again = Choice(replace(choice.config, layers=layers, patience=0), (note,), refits=True)
    listener.chosen(again)
    try:
        return _train(everything, again.config, wishes, **machine)
    except KeyboardInterrupt as interrupt:
        raise RunInterrupted(str(interrupt) or "interrupted", network, history) from None


def _known_config(wishes: Wishes, data: TrainingData, start: tuple[Network, History] | None) -> NetworkConfig | None:
    """Return the configuration if no trial on the images decides about it."""
    asked = wishes.config
    if isinstance(asked, NetworkConfig):
        return asked
    if asked.preset is not None:
        return asked.complete(data.image_shape, classes=data.classes)
    return None if start is None else replace(start[0].config, **asked.options)


def _hold_out(
    data: TrainingData, wishes: Wishes, config: NetworkConfig | None, start: tuple[Network, History] | None
) -> NDArray[np.intp] | None:
    """Return the indices of the training images that become validation images; None if there are none.

    Images that the layers of ``start`` were learned from can be no validation images.
    """
    learned_from_all = start is not None and any(r.validation_accuracy is None for r in start[1])
    if "validation" in data.others or learned_from_all:
        return None
    options = vars(config) if config is not None else wishes.config.options  # type: ignore[union-attr]
    fraction = wishes.fraction(options.get("patience", 0))
    if fraction == 0:
        return None
    return stratified_split(data.labels.numpy(), fraction, options.get("seed", 0))[1]


def _check_refit(wishes: Wishes, has_validation: bool, continues: bool) -> None:
    if wishes.time_limit is not None or continues:
        raise ConfigError("refit must not be used with a time_limit or with layers to start from. Leave one out.")
    if not has_validation:
        raise ConfigError("refit must be used with validation images, or with early stopping. Leave it out.")


def _choose(wishes: Wishes, data: TrainingData, compute: ComputeOptions, workers: Workers) -> Choice:
    """Return the default network for the training images, changed by the options set, by trials on some of them."""
    assert isinstance(wishes.config, Config)
    options = wishes.config.options

    def choose() -> Choice:
        return choose_network(data, compute, wishes.quality, wishes.time_limit, options, wishes.passed, workers)

    began = monotonic()
    choice = choose_on_rank0(workers, choose)
    if not choice.notes:
        return choice
    return replace(choice, notes=(*choice.notes, f"choice of the network: {show_seconds(monotonic() - began)}"))


def _train(data: TrainingData, config: NetworkConfig, wishes: Wishes, **settings: Any) -> tuple[Network, History]:
    """Train from the first to the last layer; raise RunInterrupted with the finished layers at Ctrl-C."""
    run = TrainingRun(data, None, config, time_limit=wishes.seconds_left, **settings)
    try:
        for _ in run:
            pass
    except KeyboardInterrupt as interrupt:
        done = len(run.history)
        if not done:
            raise
        run.history.stopped = StopReason.INTERRUPTED
        stack = replace(run.network.stack, layers=run.network.layers[:done])
        network = replace(run.network, stack=stack, used_layers=layers_to_use(config, run.history))
        raise RunInterrupted(str(interrupt) or "interrupted", network, run.history) from None
    if "listener" in settings:
        settings["listener"].finished(run.history)
    return run.network, run.history
