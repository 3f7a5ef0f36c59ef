"""The training loop."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from time import monotonic
from typing import Any, Protocol

from torch import Tensor

from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..config.presets import check_asked_options, check_names
from ..data.loading import load_to_train
from ..network.history import History, LayerRecord, ReadoutRecord, StopReason, reason_to_stop
from ..network.inputs import Array, as_images
from ..network.memory import RunSizes
from ..network.network import Network
from .choice import choose_network, choose_on_rank0
from .data import LabelledImages, TrainingData, warn_of_equal_images, weighted_images
from .distributed.workers import Workers
from .memory_plan import MemoryPlan
from .readout.fit import Collected, fit_readout
from .time_plan import TimePlan, product_speed
from .trainer import Trainer


class Listener(Protocol):
    """An object that is informed of a run's progress."""

    def planned(self, network: Network, plan: MemoryPlan) -> None:
        """Receive the plan, once, before work starts."""

    def layer_added(self, record: LayerRecord) -> None:
        """Receive the record of a layer that was added."""

    def readout_step(self, steps: int, residual: float, solution: Tensor) -> None:
        """Receive the progress of a readout that is fitted step by step: the relative residual after n steps.

        The solution so far can be the ``readout_start`` of another run.
        """

    def readout_fitted(self, record: ReadoutRecord) -> None:
        """Receive the record of the readout, if there is one; the network has it now."""


class TrainingRun:
    """One training run: iterate over it to train; it yields one record per layer.

    The constructor checks all inputs, and passes the images through the layers of ``start``. The iteration learns. It
    fits the readout, if any, after the last layer.

    Parameters
    ----------
    images : Tensor or array, shape (n, channels, height, width)
        uint8 or floating, in any range of values.
    labels : Tensor or array, shape (n,)
        Classes, counted from 0.
    config : NetworkConfig
    validation : (images, labels), optional
        Validation set: its accuracy is recorded and decides early stopping. With ``config.patience`` the network
        predicts with its best depth on them (``Network.depth``), and the readout is fitted to those layers.
    test : (images, labels), optional
        Test set: its accuracy is recorded, and decides nothing.
    weights : Tensor or array, shape (n,), optional
        Weight of each training image in all sums: one of weight 2 counts like two equal images. 0 leaves it out.
    compute : ComputeOptions, optional
    listener : Listener, optional
    start : (network, history), optional
        Network to continue from: the images pass through its layers, and new ones are added up to ``config.layers``.
        It is not changed. On the same images and machine the result is that of an uninterrupted run.
    readout_start : Tensor, optional
        Solution of an interrupted fit of the readout (:class:`Listener`), which continues from there.
    workers : Workers, optional
        Processes that train together. Each is given all images, and takes its shard.
    deadline : float, optional
        ``time.monotonic()`` value after which no layer is started. If it stops the run, no readout is fitted.
    time_limit : float, optional
        Seconds of the whole run. No layer is started that would leave too little time for the readout.

    Attributes
    ----------
    network : Network
    history : History
    plan : MemoryPlan
    """

    def __init__(
        self,
        images: Array,
        labels: Array,
        config: NetworkConfig,
        *,
        validation: LabelledImages | None = None,
        test: LabelledImages | None = None,
        weights: Array | None = None,
        compute: ComputeOptions | None = None,
        listener: Listener | None = None,
        start: tuple[Network, History] | None = None,
        readout_start: Tensor | None = None,
        workers: Workers | None = None,
        deadline: float | None = None,
        time_limit: float | None = None,
    ) -> None:
        self._config, self._listener, self._deadline = config, listener, deadline
        self._readout_start, self._time_limit = readout_start, time_limit
        self._began = 0.0 if time_limit is None else monotonic()
        self._data = TrainingData.of(config, images, labels, validation, test, weights)
        warn_of_equal_images(self._data.images)
        self._trainer: Trainer | None = Trainer(config, self._data, compute or ComputeOptions(), workers or Workers())
        self._speed = 1.0 if time_limit is None else product_speed(self._trainer.device)
        self.network, self.history, self.plan = self._trainer.network, self._trainer.history, self._trainer.plan
        if listener:
            listener.planned(self.network, self.plan)
        if start:
            self._trainer.resume_from(*start)

    def __iter__(self) -> Iterator[LayerRecord]:
        """Add layers until a rule of depth stops the run, then fit the readout."""
        while (reason := self._reason_to_stop()) is None:
            assert self._trainer is not None
            record = self._trainer.add_layer()
            if self._listener:
                self._listener.layer_added(record)
            yield record
        self.history.stopped = reason
        if self._config.has_kernel and reason is not StopReason.DEADLINE and self.history.readout is None:
            assert self._trainer is not None
            collected = Collected.of(self._trainer)
            step = self._listener.readout_step if self._listener else None
            self._trainer = None  # the readout needs the memory of maps and sums
            self.history.readout = fit_readout(self.network, self._data, collected, step, self._readout_start)
            if self._listener:
                self._listener.readout_fitted(self.history.readout)

    def _reason_to_stop(self) -> StopReason | None:
        """Return why no layer is added any more; None if one is."""
        reason = reason_to_stop(self._config, self.history)
        if reason is None and self._deadline is not None and monotonic() >= self._deadline:
            return StopReason.DEADLINE
        if reason is not None or self._time_limit is None or not self.history.records:
            return reason
        late = monotonic() - self._began + self._seconds_with_another_layer() > self._time_limit
        assert self._trainer is not None
        return StopReason.TIME if self._trainer.workers.sum_int(int(late)) else None  # clocks of workers differ

    def _seconds_with_another_layer(self) -> float:
        """Predict the seconds that are left if one more layer is learned, and then the readout."""
        data, config = self._data, self._config
        seen = len(data.images) * config.copies_per_image
        others = len(config.views) * sum(len(labels) for _, labels in data.others.values())
        sizes = RunSizes(data.image_shape, data.classes, len(data.images))
        plan = TimePlan.of(config, sizes, self.history[-1], seen, self._speed)
        copies = plan.copies * seen / (seen + others)  # the record has the time of validation and test images too
        return plan.layer + (len(self.history) + 1) * copies + plan.readout


def train(
    images: Array | str | PathLike[str],
    labels: Array | None = None,
    config: NetworkConfig | None = None,
    *,
    validation: LabelledImages | None = None,
    test: LabelledImages | None = None,
    weights: Array | None = None,
    compute: ComputeOptions | None = None,
    listener: Listener | None = None,
    start: tuple[Network, History] | None = None,
    readout_start: Tensor | None = None,
    workers: Workers | None = None,
    time_limit: float | None = None,
    **options: Any,
) -> tuple[Network, History]:
    """Train a network; :class:`~rescnet.training.train.TrainingRun` describes the parameters.

    Instead of images and labels it takes all that :func:`rescnet.data.load` reads: an image folder, a ``.npz`` file, or
    a name, e.g. ``"cifar10:50"``. Its validation and test images are used too. Class k has the k-th name of the loaded
    ``class_names``. Without ``config`` the network follows from the images; ``options`` change it, e.g. ``layers=3``.

    Returns
    -------
    network : Network
    history : History
    """
    if isinstance(images, str | PathLike):
        if labels is not None:
            raise ValueError("labels must be None, since the source holds them. Write train(source, config=...).")
        name = images
        source = (workers or Workers()).first_alone(lambda: load_to_train(name))
        images, labels = source.train.images, source.train.labels
        if source.validation is not None:
            validation = validation or (source.validation.images, source.validation.labels)
        if source.test is not None:
            test = test or (source.test.images, source.test.labels)
    if labels is None:
        as_images(images)  # refuses a data set of PyTorch by its name
        raise ValueError("labels must be given with arrays of images, got None.")
    if config is not None and options:
        raise ValueError(
            f"{next(iter(options))} must be in the configuration, if there is one. Pass it to make_config."
        )
    if config is None:
        check_names(options, "keywords")
        held = None if validation is None else weighted_images(*validation, None)[:2]
        given, seen = compute or ComputeOptions(), weighted_images(images, labels, weights)[:2]
        trial: dict[str, Any] = {"time_limit": time_limit, "given": options, "validation": held, "workers": workers}
        choice = choose_on_rank0(workers or Workers(), lambda: choose_network(*seen, given, **trial))
        config = choice.config
        check_asked_options(config, options)
        time_limit = None if time_limit is None else max(1.0, time_limit - choice.seconds)
    run = TrainingRun(
        images,
        labels,
        config,
        validation=validation,
        test=test,
        weights=weights,
        compute=compute,
        listener=listener,
        start=start,
        readout_start=readout_start,
        workers=workers,
        time_limit=time_limit,
    )
    for _ in run:
        pass
    return run.network, run.history
