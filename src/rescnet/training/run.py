"""The training loop."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from torch import Tensor

from ..base.errors import ConfigError
from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..network.history import History, LayerRecord, StopReason, reason_to_stop
from ..network.inputs import Array
from ..network.memory import RunSizes
from ..network.network import Network
from .data import LabelledImages, TrainingData, warn_of_absent_classes, warn_of_equal_images
from .listener import Listener
from .readout.fit import fit_readout
from .time_plan import TimePlan, product_speed
from .trainer import Trainer
from .workers import Workers


class TrainingRun:
    """One training run: iterate over it to train; it yields one record per layer.

    The constructor checks all inputs, and passes the images through the layers of ``start``. The iteration learns. It
    fits the readout, if any, after the last layer.

    Parameters
    ----------
    images : Tensor or array, shape (n, channels, height, width), or TrainingData
        uint8 or floating, in any range of values. :class:`~rescnet.training.data.TrainingData` has all images, labels
        and weights.
    labels : Tensor or array, shape (n,)
        Classes, counted from 0.
    config : NetworkConfig
    validation : (images, labels), optional
        Validation set: its accuracy is recorded and decides early stopping. With ``config.patience`` the network
        predicts with its best depth on them (``Network.used_layers``), and the readout is fitted to those layers.
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
        images: Array | TrainingData,
        labels: Array | None,
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
        if not isinstance(images, TrainingData):
            images = TrainingData.of(images, labels, validation, test, weights)
        self._data = images
        if config.patience and "validation" not in self._data.others:
            raise ConfigError(
                f"patience must be 0 without validation images, got {config.patience}. Give some, or set it to 0."
            )
        warn_of_equal_images(self._data.images)
        warn_of_absent_classes(self._data.labels)
        self._trainer: Trainer | None = Trainer(config, self._data, compute or ComputeOptions(), workers or Workers())
        self._speed = 1.0 if time_limit is None else product_speed(self._trainer.device)
        self.network, self.history, self.plan = self._trainer.network, self._trainer.history, self._trainer.plan
        if listener:
            listener.planned(self.network, self.plan)
        if start:
            self._trainer.resume_from(*start)
            if listener:
                listener.started(self.network, self.history)

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
            collected = self._trainer.collected()
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
