"""One run of ``rescnet train``: training, saving, and the summary at its end or at Ctrl-C."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from ..base.text import count, show_bytes
from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..data import Dataset, ImageSet
from ..data.splits import checksums, fingerprint, fingerprints, join_validation
from ..model import describe_images, describe_run
from ..network.history import History, LayerRecord, StopReason, layers_to_use
from ..network.memory import readout_file_bytes, readout_rows
from ..network.network import Network
from ..network.stack import LayerStack
from ..saving import InterruptedRun, ModelFolder, check_space, layer_bytes
from ..training.choice import Choice
from ..training.data import TrainingData
from ..training.fitting import Wishes, fit
from ..training.listener import Listener, Listeners
from ..training.saver import ModelSaver
from ..training.table import TrainingTable
from ..training.tensorboard import TensorBoardLog
from ..training.workers import Workers
from .errors import ReportedInterrupt
from .shared import say

TESTED_ON_CPU = 1000  # test images that pass each layer though there are fewer training images


@dataclass(kw_only=True)
class TrainCommand(Listener):
    """A run of ``rescnet train`` whose images and wishes are known.

    ``place`` is the folder of the model, and ``about`` has the facts of the command line that the model records.
    ``resumed`` is the part of the run that exists, and ``notes`` are lines about it. The log is closed at the end. Rank
    0 of the workers saves and prints. As a listener it puts images that are held out into its data set.
    """

    dataset: Dataset
    wishes: Wishes
    compute: ComputeOptions
    device: str
    place: Path
    about: dict[str, Any]
    overwrite: bool = False
    log: TensorBoardLog | None = None
    resumed: InterruptedRun | None = None
    notes: tuple[str, ...] = ()
    workers: Workers = field(default_factory=Workers)

    def run(self, console: Console, as_json: bool) -> None:
        """Train, save each layer when it was added, and print a summary."""
        if not self.workers.is_rank0:
            self._train(self)
            return
        for note in (*self.dataset.notes, *self.notes):
            say(console, escape(note))
        if self.dataset.test and not self._measures_test:
            say(console, f"the {len(self.dataset.test):,} test images are left to rescnet evaluate, to save time")
        saver = ModelSaver(self.place, self.dataset.class_names, self._facts, self.overwrite, self.resumed)
        where = self.device if self.workers.count == 1 else f"{self.workers.count} workers, {self.device}"
        table = TrainingTable(console, self.dataset.name, where, self._images)
        lines = _JsonLines() if as_json else None
        try:
            with self.log or nullcontext(), saver, table:
                history = self._train(Listeners(self, saver, table, self.log, lines))
        except KeyboardInterrupt as interrupt:
            message = self._print_stopped(str(interrupt) or "interrupted", len(saver.records), saver.folder)
            if as_json:
                self._print_json(History(saver.records, StopReason.INTERRUPTED), saver.folder)
            raise ReportedInterrupt(message) from None
        except Exception:
            if saver.records:
                self._print_stopped("stopped by an error", len(saver.records), saver.folder)
            raise
        folder = ModelFolder.open(self.place)
        size, place = show_bytes(folder.size_on_disk()), escape(str(self.place))
        say(console, f"model: [bold]{place}[/bold] ({size}), {_depth_used(folder)}")
        if as_json:
            self._print_json(history, self.place)

    def chosen(self, choice: Choice) -> None:
        """Put images that are held out into the data set; a refit has all images again."""
        self._config, held, train = choice.config, choice.held_out, self.dataset.train
        if choice.refits:
            self.dataset, self.about["refit"] = join_validation(self._whole), True
        self._whole: Dataset = self.dataset
        if held is not None:
            kept = np.setdiff1d(np.arange(len(train)), held)
            self.dataset = replace(self.dataset, train=train.subset(kept), validation=train.subset(held))
        if self.resumed is None:
            seed, limit = choice.config.seed, self.about.get("limit")
            fraction = 0.0 if held is None else self.wishes.fraction(choice.config.patience)
            split, self.about["seed"] = fingerprint(self.dataset.validation), seed
            self.about["held_out"] = {"fraction": fraction, "limit": limit, "seed": seed, "sha256": split}

    @property
    def _splits(self) -> dict[str, ImageSet]:
        splits = {"train": self.dataset.train, "validation": self.dataset.validation, "test": self.dataset.test}
        return {name: images for name, images in splits.items() if images}

    @property
    def _measures_test(self) -> bool:
        """True if test images pass each layer too: not in limited time, nor if they would be most of a CPU's work."""
        learned = len(self.dataset.train) + len(self.dataset.validation or ())
        most = max(TESTED_ON_CPU, learned) if self.device.startswith("cpu") else inf
        return self.dataset.test is not None and self.wishes.time_limit is None and len(self.dataset.test) <= most

    def _images(self) -> str:
        """Return the number of images per split, and the preset."""
        titles = {"train": "training"}
        counts = ", ".join(f"{len(images):,} {titles.get(name, name)}" for name, images in self._splits.items())
        preset = self.about.get("preset")
        return f"{counts} images" + (f"; settings of the preset {preset}" if preset else "")

    def _train(self, listener: Listener) -> History:
        pairs = {name: (images.images, images.labels) for name, images in self._splits.items()}
        config = self.wishes.config
        start = None
        if self.resumed is not None and isinstance(config, NetworkConfig):
            folder = self.resumed.folder
            stack = LayerStack(config, folder.image_shape, len(folder.class_names), list(self.resumed.layers))
            start = Network(stack), folder.history()
        test = pairs["test"] if self._measures_test else None
        _, history = fit(
            TrainingData.of(*pairs["train"], pairs.get("validation"), test),
            self.wishes,
            compute=self.compute,
            listener=listener,
            workers=self.workers,
            start=start,
            readout_start=self.resumed.solution if self.resumed else None,
        )
        return history

    def _facts(self, network: Network) -> dict[str, Any]:
        """Return the facts about the run that the model records."""
        self._check_space(network)
        return {
            **{name: value for name, value in self.about.items() if name != "limit"},
            **describe_run(self.device),
            "compute": asdict(self.compute),
            "workers": self.workers.count,
            "images": {name: len(images) for name, images in self._splits.items()},
            "preprocessing": describe_images(self.dataset.train.images),
            "fingerprints": fingerprints(self.dataset),
            "training_checksums": checksums(self.dataset.train.images),
            "training_files": list(self.dataset.train.files) if network.config.has_kernel else None,
        }

    def _check_space(self, network: Network) -> None:
        """Raise ModelFileError if the disk is too small for the layers to be added and the readout."""
        config, done = network.config, len(self.resumed.layers) if self.resumed else 0
        itemsize = {"float32": 4, "float64": 8}[self.compute.dtype]
        size = (config.layers - done) * layer_bytes(config, network.image_shape, network.classes, itemsize)
        rows = readout_rows(config, len(self.dataset.train.images))
        size += readout_file_bytes(config, network.image_shape, network.classes, rows)
        check_space(self.place, size)

    def _print_stopped(self, reason: str, layers: int, folder: Path | None) -> str:
        """Print, and return, which layers a run that was stopped leaves, and in which folder."""
        message = f"{reason}: no layer was finished, nothing was written"
        if self.about.get("refit"):
            message = f"{reason}: the refit was not finished, {self.place} is the network that was trained before it"
        if layers:
            finished = count(layers, "layer is", "layers are")
            message = f"{reason}: {finished} finished and usable, in {folder or self.place}"
            if folder not in (None, self.place):
                message += f"; {self.place} was not replaced"
            if self._config.has_kernel:
                message += "; the kernel readout is missing, --resume fits it"
        say(Console(stderr=True), escape(message))
        return message

    def _print_json(self, history: History, folder: Path | None) -> None:
        """Print the line of the run, whose layers are in this folder."""
        layers = len(history)
        summary: dict[str, Any] = {"model": str(folder or self.place) if layers else None, "layers": layers}
        summary["stopped"] = history.stopped
        if layers:
            summary["used_layers"] = layers_to_use(self._config, history)
            summary["best_layer"] = history.best_layer()
            for place, record in (("best", history[history.best_layer() - 1]), ("last", history[-1])):
                for split in ("train", "validation", "test"):
                    summary[f"{place}_{split}_accuracy"] = getattr(record, f"{split}_accuracy")
        if history.readout:
            summary["readout"] = asdict(history.readout)
        typer.echo(json.dumps(summary))


def _depth_used(folder: ModelFolder) -> str:
    """Return a phrase about the layers that predictions use."""
    layers, used = len(folder.records), folder.used_layers
    which = f"the first {used} of" if used < layers else "all" if layers > 1 else "its"
    chosen = ", the best validation depth" if folder.config.patience else ""
    return f"predicts with {which} {count(layers, 'layer', 'layers')}{chosen}"


class _JsonLines(Listener):
    """Prints each layer as a line of JSON."""

    def layer_added(self, record: LayerRecord) -> None:
        typer.echo(json.dumps(asdict(record)))
