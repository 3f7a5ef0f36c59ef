"""One run of ``rescnet train``: training, saving, and the summary at its end or at Ctrl-C."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from torch import Tensor

from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..data import Dataset, ImageSet
from ..data.splits import checksums, fingerprints
from ..model import describe_images, describe_run
from ..network.history import History, LayerRecord, ReadoutRecord, StopReason, depth_to_use
from ..network.memory import readout_file_bytes, readout_rows
from ..network.network import Network
from ..network.stack import LayerStack
from ..saving import InterruptedRun, ModelFolder, ModelWriter, check_space, layer_bytes
from ..text import count, show_bytes
from ..training.distributed.workers import Workers
from ..training.listeners import TensorBoardLog, TrainingTable
from ..training.memory_plan import MemoryPlan
from ..training.train import Listener, train
from .errors import ReportedInterrupt
from .shared import say

TESTED_ON_CPU = 1000  # test images that pass each layer though there are fewer training images
SECONDS_BETWEEN = 60  # two solutions of the readout that are saved


@dataclass(frozen=True, kw_only=True)
class TrainCommand:
    """A run of ``rescnet train`` whose images and options are known.

    Its data set has the held-out images as validation images, ``place`` is the folder of the model, and ``about`` has
    the facts of the command line that the model records. ``resumed`` is the part of the run that exists, and ``notes``
    are lines about it, printed first. The log is closed at the end. Rank 0 of the workers saves and prints.
    """

    dataset: Dataset
    config: NetworkConfig
    compute: ComputeOptions
    device: str
    place: Path
    about: dict[str, Any]
    overwrite: bool = False
    log: TensorBoardLog | None = None
    resumed: InterruptedRun | None = None
    notes: Sequence[str] = ()
    workers: Workers = field(default_factory=Workers)
    time_limit: float | None = None

    def run(self, console: Console, as_json: bool) -> None:
        """Train, save each layer when it was added, and print a summary."""
        if not self.workers.is_rank0:
            self._train(None)
            return
        for note in self.notes:
            say(console, escape(note))
        if self.dataset.test and not self._measures_test:
            say(console, f"the {len(self.dataset.test):,} test images are left to rescnet evaluate, to save time")
        saver = LayerSaver(self._writer, self.resumed.folder.records if self.resumed else ())
        where = self.device if self.workers.count == 1 else f"{self.workers.count} workers, {self.device}"
        with self.log or nullcontext(), TrainingTable(console, self.dataset.name, where, self._images()) as table:
            listeners: list[Listener] = [saver, table, *([self.log] if self.log else [])]
            try:
                history = self._train(_Listeners(listeners, as_json))
            except KeyboardInterrupt as interrupt:
                table.close()
                layers = saver.finish(StopReason.INTERRUPTED)
                message = self._print_stopped(str(interrupt) or "interrupted", layers, saver.folder)
                if as_json:
                    self._print_json(History(saver.records, StopReason.INTERRUPTED), saver.folder)
                raise ReportedInterrupt(message) from None
            except Exception:
                table.close()
                with suppress(OSError):  # e.g. a full disk: the layers of an unsealed model can be loaded too
                    saver.finish(StopReason.FAILED)
                if saver.records:
                    self._print_stopped("stopped by an error", len(saver.records), saver.folder)
                raise
            saver.finish(history.stopped)
            table.finished(history)
        folder = ModelFolder.open(self.place)
        size, place = show_bytes(folder.size_on_disk()), escape(str(self.place))
        say(console, f"model: [bold]{place}[/bold] ({size}), {_depth_used(folder)}")
        if as_json:
            self._print_json(history, self.place)

    @property
    def _splits(self) -> dict[str, ImageSet]:
        splits = {"train": self.dataset.train, "validation": self.dataset.validation, "test": self.dataset.test}
        return {name: images for name, images in splits.items() if images}

    @property
    def _measures_test(self) -> bool:
        """True if test images pass each layer too: not in limited time, nor if they would be most of a CPU's work."""
        most = max(TESTED_ON_CPU, len(self.dataset.train)) if self.device.startswith("cpu") else inf
        return self.dataset.test is not None and self.time_limit is None and len(self.dataset.test) <= most

    def _images(self) -> str:
        """Return the number of images per split, and the preset."""
        titles = {"train": "training"}
        counts = ", ".join(f"{len(images):,} {titles.get(name, name)}" for name, images in self._splits.items())
        preset = self.about.get("preset")
        return f"{counts} images" + (f"; settings of the preset {preset}" if preset else "")

    def _train(self, listener: Listener | None) -> History:
        pairs = {name: (images.images, images.labels) for name, images in self._splits.items()}
        _, history = train(
            *pairs["train"],
            self.config,
            validation=pairs.get("validation"),
            test=pairs["test"] if self._measures_test else None,
            compute=self.compute,
            listener=listener,
            start=_start(self.resumed, self.config) if self.resumed else None,
            readout_start=self.resumed.solution if self.resumed else None,
            workers=self.workers,
            time_limit=self.time_limit,
        )
        return history

    def _writer(self, network: Network) -> ModelWriter:
        self._check_space(network)
        about = {
            **self.about,
            **describe_run(self.device),
            "compute": asdict(self.compute),
            "workers": self.workers.count,
            "images": {name: len(images) for name, images in self._splits.items()},
            "preprocessing": describe_images(self.dataset.train.images),
            "fingerprints": fingerprints(self.dataset),
            "training_checksums": checksums(self.dataset.train.images),
            "training_files": list(self.dataset.train.files) if self.config.has_kernel else None,
        }
        return ModelWriter(
            self.place,
            self.config,
            network.image_shape,
            self.dataset.class_names[: network.classes],
            about,
            half=network.half,
            overwrite=self.overwrite,
            resumed=self.resumed,
        )

    def _check_space(self, network: Network) -> None:
        """Raise ModelFileError if the disk is too small for the layers to be added and the readout."""
        done = len(self.resumed.layers) if self.resumed else 0
        itemsize = {"float32": 4, "float64": 8}[self.compute.dtype]
        size = (self.config.layers - done) * layer_bytes(self.config, network.image_shape, network.classes, itemsize)
        rows = readout_rows(self.config, len(self.dataset.train.images))
        size += readout_file_bytes(self.config, network.image_shape, network.classes, rows)
        check_space(self.place, size)

    def _print_stopped(self, reason: str, layers: int, folder: Path | None) -> str:
        """Print, and return, which layers a run that was stopped leaves, and in which folder."""
        message = f"{reason}: no layer was finished, nothing was written"
        if layers:
            finished = count(layers, "layer is", "layers are")
            message = f"{reason}: {finished} finished and usable, in {folder or self.place}"
            if folder not in (None, self.place):
                message += f"; {self.place} was not replaced"
            if self.config.has_kernel:
                message += "; the kernel readout is missing, --resume fits it"
        say(Console(stderr=True), escape(message))
        return message

    def _print_json(self, history: History, folder: Path | None) -> None:
        """Print the line of the run, whose layers are in this folder."""
        layers = len(history)
        summary: dict[str, Any] = {"model": str(folder or self.place) if layers else None, "layers": layers}
        summary["stopped"] = history.stopped
        if layers:
            summary["used_layers"] = depth_to_use(self.config, history) or layers
            summary["best_layer"] = history.best_layer()
            for place, record in (("best", history[history.best_layer() - 1]), ("last", history[-1])):
                for split in ("train", "validation", "test"):
                    summary[f"{place}_{split}_accuracy"] = getattr(record, f"{split}_accuracy")
        if history.readout:
            summary["readout"] = asdict(history.readout)
        typer.echo(json.dumps(summary))


def _start(run: InterruptedRun, config: NetworkConfig) -> tuple[Network, History]:
    folder = run.folder
    stack = LayerStack(config, folder.image_shape, len(folder.class_names), list(run.layers))
    return Network(stack), folder.history()


def _depth_used(folder: ModelFolder) -> str:
    """Return a phrase about the layers that predictions use."""
    layers, used = len(folder.records), folder.depth
    which = f"the first {used} of" if used < layers else "all" if layers > 1 else "its"
    chosen = ", the best validation depth" if folder.config.patience else ""
    return f"predicts with {which} {count(layers, 'layer', 'layers')}{chosen}"


class LayerSaver:
    """Writes each layer to the folder of the model when it was added.

    ``records`` are those of the layers written, with those of an earlier session first.
    """

    def __init__(self, make_writer: Callable[[Network], ModelWriter], before: Sequence[LayerRecord]) -> None:
        self._make_writer = make_writer
        self._writer: ModelWriter | None = None
        self._network: Network | None = None
        self.records = list(before)
        self._saved = monotonic()  # when the solution of the readout was

    def planned(self, network: Network, plan: MemoryPlan) -> None:
        """Prepare the folder; nothing is written yet."""
        self._network, self._writer = network, self._make_writer(network)

    def layer_added(self, record: LayerRecord) -> None:
        """Write the newest layer."""
        assert self._network is not None and self._writer is not None
        self.records.append(record)  # before the file: an interrupt in between must not lose the record
        self._writer.add_layer(self._network.layers[-1], record)

    def readout_step(self, steps: int, residual: float, solution: Tensor) -> None:
        """Write the solution so far, once a minute, so that an interrupted fit continues from it."""
        assert self._writer is not None
        if monotonic() - self._saved >= SECONDS_BETWEEN:
            self._writer.save_solution(solution)
            self._saved = monotonic()

    def readout_fitted(self, record: ReadoutRecord) -> None:
        """Write the readout of the network."""
        network = self._network
        assert network is not None and network.readout is not None and self._writer is not None
        self._writer.add_readout(network.readout, record, network.used_layers)

    @property
    def folder(self) -> Path | None:
        """Folder of the layers written so far; None before the first."""
        return self._writer.folder if self._writer and self._writer.layers else None

    def finish(self, stopped: StopReason | None) -> int:
        """Seal the model and return its number of layers."""
        if self._writer is None:
            return 0
        try:
            self._writer.finish(stopped)
        finally:
            del self.records[self._writer.layers :]
        return self._writer.layers


class _Listeners:
    """Several listeners, informed in order; a layer is then printed as a line of JSON, if asked for."""

    def __init__(self, listeners: Sequence[Listener], as_json: bool) -> None:
        self.listeners, self.as_json = listeners, as_json

    def planned(self, network: Network, plan: MemoryPlan) -> None:
        for listener in self.listeners:
            listener.planned(network, plan)

    def layer_added(self, record: LayerRecord) -> None:
        for listener in self.listeners:
            listener.layer_added(record)
        if self.as_json:
            typer.echo(json.dumps(asdict(record)))

    def readout_step(self, steps: int, residual: float, solution: Tensor) -> None:
        for listener in self.listeners:
            listener.readout_step(steps, residual, solution)

    def readout_fitted(self, record: ReadoutRecord) -> None:
        for listener in self.listeners:
            listener.readout_fitted(record)
