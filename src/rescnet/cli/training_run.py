"""One run of ``rescnet train``: training, saving, and the summary at its end or at Ctrl-C."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..data import Dataset, ImageSet
from ..data.splits import fingerprints
from ..formatting import count, show_bytes, show_points
from ..model_files import InterruptedRun, ModelFolder, ModelWriter, check_space, layer_bytes, load_model
from ..network.history import History, LayerRecord, ReadoutRecord, StopReason, depth_to_use
from ..network.memory import readout_rows
from ..network.model import describe_images, describe_run
from ..network.network import Network
from ..network.stack import LayerStack
from ..training.distributed.workers import Workers
from ..training.listeners import TensorBoardLog, TrainingTable
from ..training.train import Listener, train
from .errors import ReportedInterrupt
from .listeners import JsonLines, LayerSaver, Listeners


def command_line() -> str:
    """Return the command line of this process."""
    return shlex.join(["rescnet", *sys.argv[1:]])


@dataclass(frozen=True, kw_only=True)
class TrainCommand:
    """A run of ``rescnet train`` whose images and options are known.

    Attributes
    ----------
    dataset : Dataset
        With the held-out images as validation images.
    config : NetworkConfig
    compute : ComputeOptions
    device : str
    place : Path
        Folder of the model.
    about : dict
        Facts of the command line that the model records.
    half_heads, overwrite : bool
        As for :class:`rescnet.model_files.ModelWriter`.
    log : TensorBoardLog, optional
        Closed at the end of the run, also after an error.
    resumed : InterruptedRun, optional
        The part of the run that exists.
    workers : Workers
        Rank 0 saves and prints.
    """

    dataset: Dataset
    config: NetworkConfig
    compute: ComputeOptions
    device: str
    place: Path
    about: dict[str, Any]
    half_heads: bool = False
    overwrite: bool = False
    log: TensorBoardLog | None = None
    resumed: InterruptedRun | None = None
    workers: Workers = field(default_factory=Workers)

    def run(self, console: Console, as_json: bool) -> None:
        """Train, save each layer when it was added, and print a summary."""
        if not self.workers.is_rank0:
            self._train(None)
            return
        if self.resumed:
            self._print_resumed(self.resumed, console)
        saver = LayerSaver(self._writer, self.resumed.folder.records if self.resumed else ())
        where = self.device if self.workers.count == 1 else f"{self.workers.count} workers, {self.device}"
        with self.log or nullcontext(), TrainingTable(console, self.dataset.name, where, self._images()) as table:
            listeners: list[Listener] = [saver, table, *([JsonLines()] if as_json else [])]
            if self.log:
                listeners.append(self.log)
            try:
                network, history = self._train(Listeners(listeners))
            except KeyboardInterrupt as interrupt:
                table.close()
                layers = saver.finish(StopReason.INTERRUPTED)
                message = self._print_stopped(str(interrupt) or "interrupted", layers, saver.folder)
                if as_json:
                    self._print_json(saver.records, StopReason.INTERRUPTED, folder=saver.folder)
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
        facts = self._halving(network, history, console) if self.half_heads else {}
        if facts:
            saver.finish(history.stopped, halving=facts)
        folder = ModelFolder.open(self.place)
        size, place = show_bytes(folder.size_on_disk()), escape(str(self.place))
        console.print(f"model: [bold]{place}[/bold] ({size}), {_depth_used(folder)}", highlight=False, soft_wrap=True)
        if as_json:
            self._print_json(history.records, history.stopped, history.readout, **facts)

    def _print_resumed(self, run: InterruptedRun, console: Console) -> None:
        """Print where the run continues, and a note if its sums will be rounded differently."""
        done = len(run.layers)
        damaged = f"; {escape(run.damaged)} is damaged, so layer {done + 1} is learned again" if run.damaged else ""
        place = escape(str(run.folder.path))
        console.print(f"continuing after layer {done} of {place}{damaged}", highlight=False, soft_wrap=True)
        before = ComputeOptions(**run.folder.about.get("compute", {}))
        names = ("device", "memory", "maps")
        changed = [name for name in names if getattr(before, name) != getattr(self.compute, name)]
        if changed:
            console.print(
                f"with another {' and '.join(changed)} sums are added in another order: the network equals that of an "
                "uninterrupted run up to rounding, not bit for bit",
                highlight=False,
                soft_wrap=True,
            )

    def _images(self) -> str:
        """Return the number of images per split, and the preset."""
        splits = {"training": self.dataset.train, "validation": self.dataset.validation, "test": self.dataset.test}
        counts = ", ".join(f"{len(images):,} {name}" for name, images in splits.items() if images)
        preset = self.about.get("preset")
        return f"{counts} images" + (f"; settings of the preset {preset}" if preset else "")

    def _train(self, listener: Listener | None) -> tuple[Network, History]:
        return train(
            *_pair(self.dataset.train),
            self.config,
            validation=_pair(self.dataset.validation) if self.dataset.validation else None,
            test=_pair(self.dataset.test) if self.dataset.test else None,
            compute=self.compute,
            listener=listener,
            start=self._layers_before(),
            workers=self.workers,
        )

    def _layers_before(self) -> tuple[Network, History] | None:
        if self.resumed is None:
            return None
        folder = self.resumed.folder
        network = Network(
            LayerStack(self.config, folder.image_shape, len(folder.class_names), list(self.resumed.layers))
        )
        return network, folder.history()

    def _writer(self, network: Network) -> ModelWriter:
        done = len(self.resumed.layers) if self.resumed else 0
        itemsize = {"float32": 4, "float64": 8}[self.compute.dtype]
        one = layer_bytes(self.config, network.image_shape, network.classes, itemsize)
        kept = 0
        if self.config.readout == "kernel":
            images = self.dataset.train.images
            one_image = images.nbytes // len(images) + network.classes * itemsize
            kept = readout_rows(self.config, len(images)) * one_image
        check_space(self.place, one * (self.config.layers - done) + kept)
        splits = {"train": self.dataset.train, "validation": self.dataset.validation, "test": self.dataset.test}
        about = {
            **self.about,
            **describe_run(self.device),
            "compute": asdict(self.compute),
            "workers": self.workers.count,
            "images": {name: len(images) for name, images in splits.items() if images},
            "preprocessing": describe_images(self.dataset.train.images),
            "fingerprints": fingerprints(self.dataset),
        }
        return ModelWriter(
            self.place,
            self.config,
            network.image_shape,
            self.dataset.class_names[: network.classes],
            about,
            half=network.half,
            half_heads=self.half_heads,
            overwrite=self.overwrite,
            resumed=self.resumed,
        )

    def _halving(self, network: Network, history: History, console: Console) -> dict[str, Any]:
        """Print the accuracy with half-precision heads, as saved, and return it beside that with full ones."""
        name = "validation" if self.dataset.validation else "training"
        images, labels = _pair(self.dataset.validation or self.dataset.train)
        saved = replace(load_model(self.place, device=self.device).network, readout=None)
        record = history[len(saved.layers) - 1]
        full = record.validation_accuracy if self.dataset.validation else record.train_accuracy
        half = float((saved.predict(images).cpu().numpy() == labels).mean())
        assert full is not None
        console.print(
            f"half-precision heads: {name} accuracy {100 * half:.2f} %, {show_points(half - full)}",
            highlight=False,
        )
        return {"images": name, "accuracy": half, "full_accuracy": full}

    def _print_stopped(self, reason: str, layers: int, folder: Path | None) -> str:
        """Print, and return, which layers a run that was stopped leaves, and in which folder."""
        message = f"{reason}: no layer was finished, nothing was written"
        if layers:
            finished = count(layers, "layer is", "layers are")
            message = f"{reason}: {finished} finished and usable, in {folder or self.place}"
        if layers and folder not in (None, self.place):
            message += f"; {self.place} was not replaced"
        if layers and self.config.readout == "kernel":
            message += "; the kernel readout is missing, --resume fits it"
        Console(stderr=True).print(escape(message), highlight=False, soft_wrap=True)
        return message

    def _print_json(
        self,
        records: Sequence[LayerRecord],
        stopped: StopReason | None,
        readout: ReadoutRecord | None = None,
        folder: Path | None = None,
        **facts: Any,
    ) -> None:
        """Print the line of the run."""
        history = History(list(records), stopped)
        summary: dict[str, Any] = {"model": str(folder or self.place) if records else None, "layers": len(records)}
        summary |= {"stopped": stopped}
        if records:
            summary["used_layers"] = depth_to_use(self.config, history) or len(records)
            summary["best_layer"] = history.best_layer()
            for place, record in (("best", history[history.best_layer() - 1]), ("last", history[-1])):
                for split in ("train", "validation", "test"):
                    summary[f"{place}_{split}_accuracy"] = getattr(record, f"{split}_accuracy")
        if readout:
            summary["readout"] = asdict(readout)
        if facts:
            summary["half_heads"] = facts
        typer.echo(json.dumps(summary))


def _depth_used(folder: ModelFolder) -> str:
    """Return a phrase about the layers that predictions use."""
    layers, used = len(folder.records), folder.depth
    which = f"the first {used} of" if used < layers else "all" if layers > 1 else "its"
    chosen = ", the best validation depth" if folder.config.patience else ""
    return f"predicts with {which} {count(layers, 'layer', 'layers')}{chosen}"


def _pair(images: ImageSet) -> tuple[Any, Any]:
    return images.images, images.labels
