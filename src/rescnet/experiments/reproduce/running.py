"""Run one experiment: layer by layer within a time limit, saved now and then, gone on with where it was left."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...config.compute import ComputeOptions
from ...config.network import NetworkConfig
from ...data import Dataset, ImageSet
from ...data.splits import hold_out_count, stratified_split
from ...model_files import ModelFileError, ModelFolder, load_model, save_model
from ...network.device import choose_device, choose_precision
from ...network.history import LayerRecord
from ...network.model import Model
from ...training.fit_readout import add_readout
from ...training.trainer import Trainer
from ..provenance import origin
from .plans import Experiment
from .records import Results, compact, given_options, identity, summarise

SAVE_EVERY, WRITE_EVERY = 300.0, 30.0  # seconds between two savings of the layers, of the result


@dataclass(frozen=True)
class RunOptions:
    """How experiments are run.

    Attributes
    ----------
    held_out : int
        Training images the depth is chosen on; 0: none.
    limit : int, optional
        Training images used, and at most as many test images: for a trial.
    state : Path or None
        Where unfinished layers are kept; None: nowhere.
    deadline : float, optional
        Of ``time.monotonic()``: no layer is begun after it.
    """

    held_out: int = 5000
    limit: int | None = None
    state: Path | None = None
    deadline: float | None = None
    compute: ComputeOptions = ComputeOptions()
    command: str | None = None


class ExperimentRun:
    """An experiment on its images, and its entry in the results.

    Parameters
    ----------
    experiment : Experiment
    config : NetworkConfig
    dataset : Dataset
        As loaded: held-out images are taken off here.
    results : Results
    options : RunOptions
    heard : callable, optional
        Hears of every layer added.

    Attributes
    ----------
    layers : int
        Learnt so far, those of an earlier run that was gone on with included.
    """

    def __init__(
        self,
        experiment: Experiment,
        config: NetworkConfig,
        dataset: Dataset,
        results: Results,
        options: RunOptions,
        heard: Callable[[LayerRecord], None] | None = None,
    ) -> None:
        self.experiment, self.config, self.options, self.results = experiment, config, options, results
        self.heard = heard or (lambda record: None)
        self.class_names = dataset.class_names
        self.splits = split_images(dataset, options.held_out, options.limit, config.seed)
        self.images = {name: len(images) for name, images in self.splits.items()}
        self.key = experiment_key(experiment, config, options)
        self._saved = self._written = time.monotonic()
        self.layers = 0
        self._kept = 0  # layers in the state's folder

    def go(self) -> dict[str, Any] | None:
        """Train until done or out of time; return the entry, which is in the results file too; None without a layer.

        Ctrl-C, or an error, leaves the layers so far in the state's folder and the results.
        """
        pairs = {name: (images.images, images.labels) for name, images in self.splits.items()}
        trainer = Trainer(
            *pairs["train"], self.config, pairs.get("validation"), pairs.get("test"), self.options.compute
        )
        self._go_on(trainer)
        self.layers = len(trainer.history)
        stopped, entry = "of an error", None
        try:
            stopped = self._add_layers(trainer)
        except KeyboardInterrupt:
            stopped = "it was interrupted"
            raise
        except FloatingPointError as error:  # what was learnt before it counts
            stopped = f"of an error: {error}"
            if not trainer.history.records:
                raise
        finally:
            trainer.history.stopped, self.layers = stopped, len(trainer.history)
            if trainer.history.records:
                entry = self._write(trainer)
                self._keep(trainer)
        if self.config.readout == "kernel" and is_finished(stopped):
            trainer.let_go()
            others = {name: pairs.get(name) for name in ("validation", "test")}
            try:
                trainer.history.readout = add_readout(trainer.network, *pairs["train"], others)
            except FloatingPointError as error:
                trainer.history.stopped = f"of an error: {error}"
            entry = self._write(trainer)
        return entry

    def left_before(self) -> int:
        """Return how many layers an earlier run has left to go on from."""
        if self._place is None or not self._place.exists():
            return 0
        try:
            return len(ModelFolder.open(self._place).records)
        except ModelFileError:
            return 0

    def forget(self) -> None:
        """Throw away the layers an earlier run has left."""
        if self._place is not None and self._place.exists():
            shutil.rmtree(self._place)
            self._kept = 0

    def _add_layers(self, trainer: Trainer) -> str:
        while not trainer.finished():
            if self.options.deadline is not None and time.monotonic() > self.options.deadline:
                return "its time was over"
            record = trainer.add_layer()
            self.heard(record)
            now = time.monotonic()
            if now - self._written > WRITE_EVERY:
                self._write(trainer)
                self._written = time.monotonic()
            if now - self._saved > SAVE_EVERY:
                self._keep(trainer)
                self._saved = time.monotonic()
        return trainer.history.stopped

    def _write(self, trainer: Trainer) -> dict[str, Any]:
        history, readout = trainer.history, trainer.history.readout
        entry: dict[str, Any] = {
            "name": self.experiment.name,
            "label": self.experiment.label,
            "key": self.key,
            "dataset": self.experiment.dataset,
            "config": self.config.to_dict(),
            "changes": self.experiment.changes,
            "images": self.images,
            "precision": trainer.precision,
            "compute": asdict(self.options.compute),
            **origin(trainer.device, self.options.command),
            "seed": self.config.seed,
            "paper": [asdict(figure) for figure in self.experiment.paper],
            "finished": is_finished(history.stopped),
            "stopped": history.stopped,
            "layers": len(history),
            "seconds": round(sum(record.total_seconds for record in history) + (readout.seconds if readout else 0), 2),
            "readout": asdict(readout) if readout else None,
            "summary": summarise(history, readout),
            "history": [compact(record) for record in history],
        }
        self.results.put(entry)
        return entry

    @property
    def _place(self) -> Path | None:
        return self.options.state and self.options.state / f"{self.experiment.name}-{self.key}"

    def _go_on(self, trainer: Trainer) -> None:
        """Take up the layers an earlier run has left, if they can be read."""
        layers = self.left_before()  # all: a run goes on from its last layer
        if self._place is None or not layers:
            return
        try:
            model = load_model(self._place, layers, device=trainer.device)
        except ModelFileError:  # cut short while it was written: begin anew
            return
        self._kept = len(model.network.layers)
        layers = min(self._kept, self.config.layers)
        network = replace(model.network, layers=model.network.layers[:layers])
        trainer.go_on_from(network, replace(model.history, records=model.history.records[:layers]))

    def _keep(self, trainer: Trainer) -> None:
        """Save the layers so far: those that are in the history, should Ctrl-C have come between the two."""
        if self._place is None:
            return
        network, history = trainer.network, trainer.history
        if len(history) <= self._kept:
            return  # what is there is as deep, or deeper
        whole = replace(network, layers=network.layers[: len(history)])
        self._place.parent.mkdir(parents=True, exist_ok=True)
        model = Model(whole, history, self.class_names[: network.classes], {"dataset": self.experiment.dataset})
        save_model(self._place, model, overwrite=self._place.exists())
        self._kept = len(history)


def experiment_key(experiment: Experiment, config: NetworkConfig, options: RunOptions) -> str:
    """Return the identity of a run: all that decides which layers are learnt, though not how many, and the readout.

    Options at their default have no part in it, so that one more option does not make other runs of all.
    """
    settings = {name: value for name, value in given_options(config.to_dict()).items() if name != "layers"}
    places = ("device", "memory", "maps", "scratch")  # where things are kept changes nothing that is learnt
    compute = {name: value for name, value in asdict(options.compute).items() if name not in places}
    compute["precision"] = choose_precision(options.compute, choose_device(options.compute.device))
    return identity(
        dataset=experiment.dataset,
        held_out=options.held_out,
        limit=options.limit,
        config=settings,
        compute=compute,
    )


def is_finished(stopped: str) -> bool:
    """Return whether a run stopped by its own rules."""
    return bool(stopped) and not stopped.startswith(("its time was over", "it was interrupted", "of an error"))


def split_images(dataset: Dataset, held_out: int, limit: int | None, seed: int) -> dict[str, ImageSet]:
    """Return the training images, those held out of them, and the test images, where there are any."""
    train = _some(dataset.train, limit, seed)
    found = {}
    if held_out:
        kept, held = hold_out_count(train.labels, held_out, seed, len(dataset.train))
        found["validation"] = replace(train, images=train.images[held], labels=train.labels[held])
        train = replace(train, images=train.images[kept], labels=train.labels[kept])
    if dataset.test is not None:
        found["test"] = _some(dataset.test, limit, seed)
    return {"train": train, **found}


def _some(images: ImageSet, limit: int | None, seed: int) -> ImageSet:
    """Return about ``limit`` images, each class in proportion."""
    if limit is None or limit >= len(images):
        return images
    _, taken = stratified_split(images.labels, limit / len(images), seed)
    return replace(images, images=images.images[taken], labels=images.labels[taken])
