"""The runner: train one experiment within a time limit, save it now and then, and resume it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rescnet import ComputeOptions, Model, Network, NetworkConfig
from rescnet.data import Dataset, ImageSet
from rescnet.data.splits import stratified_split
from rescnet.network.device import choose_device, choose_precision
from rescnet.network.history import History, LayerRecord, StopReason, reason_to_stop
from rescnet.saving import ModelFileError, ModelFolder, load_model, save_model
from rescnet.training.run import TrainingRun

from .provenance import origin, shown_command
from .questions import HELD_OUT, Experiment
from .results import Results, compact, given_options, identity, summarise

SAVE_EVERY = 300.0  # seconds between two saves of the layers and of the entry


@dataclass(frozen=True)
class RunOptions:
    """Options shared by the runs of a question."""

    held_out: int = HELD_OUT  # training images used as validation images, which choose the depth
    limit: int | None = None  # maximum number of training images, and of test images, for a trial
    state: Path | None = None  # folder of unfinished layers; None keeps none
    deadline: float | None = None  # of time.monotonic(); no layer is started after it
    compute: ComputeOptions = ComputeOptions()

    @property
    def time_is_up(self) -> bool:
        """True after the deadline."""
        return self.deadline is not None and time.monotonic() > self.deadline


class ExperimentRun:
    """An experiment on its images, and its entry in the results.

    Validation images are split off the data set here. ``heard`` is called with the record of every layer. ``layers`` is
    the number of layers so far; at first, those that an earlier run has left, unless the run starts ``again``.
    """

    def __init__(
        self,
        experiment: Experiment,
        config: NetworkConfig,
        dataset: Dataset,
        results: Results,
        options: RunOptions,
        heard: Callable[[LayerRecord], None] = lambda record: None,
        again: bool = False,
    ) -> None:
        self.experiment, self.config, self.options, self.results = experiment, config, options, results
        self.heard = heard
        self.class_names = dataset.class_names
        self.splits = split_images(dataset, options.held_out, options.limit, config.seed)
        self.images = {name: len(images) for name, images in self.splits.items()}
        self.key = experiment_key(experiment, config, options)
        self._kept = 0  # layers in the state's folder
        self._left = None if again else self._read_left()
        self.layers = len(self._left[1]) if self._left else 0

    def go(self) -> dict[str, Any] | None:
        """Train until done or out of time; return the entry, or None if no layer was learned.

        Ctrl-C or an error leaves the layers so far in the state's folder and in the results.
        """
        pairs = {name: (images.images, images.labels) for name, images in self.splits.items()}
        run = TrainingRun(
            *pairs["train"],
            self.config,
            validation=pairs.get("validation"),
            test=pairs.get("test"),
            compute=self.options.compute,
            start=self._left,
            deadline=self.options.deadline,
        )
        reason, detail = StopReason.FAILED, ""
        try:
            self._train(run)
            reason = run.history.stopped or StopReason.FAILED
        except KeyboardInterrupt:
            reason = StopReason.INTERRUPTED
            raise
        except FloatingPointError as error:  # the layers learned before it count
            detail = f": {error}"
            if not run.history.records:
                raise
        finally:
            run.history.stopped, self.layers = reason, len(run.history)
            entry = self._save(run, detail) if run.history.records else None
        return entry

    def _train(self, run: TrainingRun) -> None:
        """Add layers, then the readout; all layers are saved before the readout is fitted."""
        saved = time.monotonic()
        self._save_if_complete(run)
        for record in run:
            self.heard(record)
            self._save_if_complete(run)
            if time.monotonic() - saved > SAVE_EVERY:
                self._save(run)
                saved = time.monotonic()

    def _save_if_complete(self, run: TrainingRun) -> None:
        if reason := reason_to_stop(self.config, run.history):
            run.history.stopped = reason
            self._save(run)

    def _save(self, run: TrainingRun, detail: str = "") -> dict[str, Any]:
        """Write the entry, then the layers."""
        device, stopped = choose_device(self.options.compute.device), run.history.stopped
        history, readout = run.history, run.history.readout
        entry: dict[str, Any] = {
            "name": self.experiment.name,
            "label": self.experiment.label,
            "key": self.key,
            "dataset": self.experiment.dataset,
            "config": self.config.to_dict(),
            "changes": self.experiment.changes,
            "images": self.images,
            "precision": choose_precision(self.options.compute, device),
            "compute": asdict(self.options.compute),
            **origin(device, shown_command("lab.reproduce")),
            "seed": self.config.seed,
            "paper": [asdict(figure) for figure in self.experiment.paper],
            "finished": stopped is not None and stopped.is_complete,
            "stopped": f"{stopped or ''}{detail}",
            "layers": len(history),
            "seconds": round(sum(record.total_seconds for record in history) + (readout.seconds if readout else 0), 2),
            "readout": asdict(readout) if readout else None,
            "summary": summarise(history),
            "history": [compact(record) for record in history],
        }
        self.results.put(entry)
        self._keep(run)
        return entry

    @property
    def _place(self) -> Path | None:
        """Folder of the layers; tables share that of the same network."""
        return self.options.state and self.options.state / f"{self.experiment.dataset}-{self.key}"

    def _read_left(self) -> tuple[Network, History] | None:
        """Return the layers an earlier run has left, if they can be read."""
        if self._place is None or not self._place.exists():
            return None
        try:
            records = ModelFolder.open(self._place).records
            model = load_model(self._place, len(records), device=choose_device(self.options.compute.device))
        except ModelFileError:  # cut short while it was written
            return None
        self._kept = len(records)
        layers = min(self._kept, self.config.layers)
        return model.network.first_layers(layers), replace(model.history, records=model.history.records[:layers])

    def _keep(self, run: TrainingRun) -> None:
        """Save the layers that are in the history; Ctrl-C may have come between a layer and its record."""
        network, history = run.network, run.history
        if self._place is None or len(history) <= self._kept:
            return
        whole = network.first_layers(len(history))
        self._place.parent.mkdir(parents=True, exist_ok=True)
        model = Model(
            whole, history, np.array(self.class_names[: network.classes]), {"dataset": self.experiment.dataset}
        )
        save_model(model, self._place, overwrite=self._place.exists())
        self._kept = len(history)


def experiment_key(experiment: Experiment, config: NetworkConfig, options: RunOptions) -> str:
    """Return the identity of a run: all that decides which layers are learned, but not how many.

    Options at their default are left out, so that a new option does not change old identities.
    """
    settings = {name: value for name, value in given_options(config.to_dict()).items() if name != "layers"}
    places = ("device", "max_memory", "maps", "scratch")  # these change nothing that is learned
    compute = {name: value for name, value in asdict(options.compute).items() if name not in places}
    compute["precision"] = choose_precision(options.compute, choose_device(options.compute.device))
    return identity(
        dataset=experiment.dataset, held_out=options.held_out, limit=options.limit, config=settings, compute=compute
    )


def split_images(dataset: Dataset, held_out: int, limit: int | None, seed: int) -> dict[str, ImageSet]:
    """Return training images, validation images split off them, and test images if there are any.

    Of a limited number of training images the same share is held out as of all, at most half.
    """
    train = _some(dataset.train, limit, seed)
    found = {}
    if held_out:
        share = min(0.5, held_out / len(dataset.train))
        if share * len(train) < 1:
            least = -(-len(dataset.train) // len(train))
            raise ValueError(
                f"held_out must be at least {least:,} of all {len(dataset.train):,} training images for one of "
                f"{len(train):,} to be held out, got {held_out}."
            )
        kept, held = stratified_split(train.labels, share, seed)
        found["validation"], train = train.subset(held), train.subset(kept)
    if dataset.test is not None:
        found["test"] = _some(dataset.test, limit, seed)
    return {"train": train, **found}


def _some(images: ImageSet, limit: int | None, seed: int) -> ImageSet:
    """Return about ``limit`` images, each class in proportion."""
    if limit is None or limit >= len(images):
        return images
    _, taken = stratified_split(images.labels, limit / len(images), seed)
    return images.subset(taken)
