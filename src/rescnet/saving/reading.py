"""Reading of a model's folder, and of an interrupted run; every file is verified before it is used.

A run's folder is a model's folder. A kill or a full disk can tear the last line of the history or the last layer's
file: that layer is learned again. Everything older must be intact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ..base.errors import ConfigError, ModelFileError
from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..model import Model
from ..network.device import choose_device
from ..network.history import History, LayerRecord, ReadoutRecord, StopReason, layers_to_use
from ..network.layouts import read_layout
from ..network.network import Network
from ..network.readout import KernelReadout
from ..network.stack import Layer, LayerStack
from .folder import COPY_AGAIN, HISTORY, LAYERS, MODEL, READOUT, SOLUTION, FolderLock, read_file
from .labels import read_labels
from .layout import (
    CHECKSUM,
    LayerFile,
    Seal,
    check_end,
    layer_name,
    read_model_json,
    read_network,
    read_record,
    record_of,
    whole_lines,
)
from .tensors import layer_from_bytes, readout_from_bytes, solution_from_bytes


def load_model(
    path: str | Path,
    layers: int | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> Model:
    """Load a model.

    Parameters
    ----------
    path : str or Path
        The model's folder.
    layers : int, optional
        Load the first n layers only; the files of the others are not opened, and the history ends there. By default
        all, or the best validation depth of a model trained with ``patience``; a readout belongs to that depth.
    device : device or str, default "cpu"
        ``"auto"`` is a GPU if there is one.
    dtype : torch.dtype, optional
        The floating type to compute in; by default that of the training. A network trained in half precision computes
        in it on a GPU only, and only if no other type is given.

    Raises
    ------
    ModelFileError
        If there is no model, it has another format, or a file of it is cut short, altered or foreign.
    """
    folder = ModelFolder.open(path)
    wanted = folder.used_layers if layers is None else layers
    if not 1 <= wanted <= len(folder.records):
        raise ConfigError(f"layers must be between 1 and {len(folder.records)}, got {wanted}.")
    place = choose_device(str(device))
    half = folder.half and place.type == "cuda" and dtype in (None, torch.float32)
    read = map(folder.read_layer, range(1, wanted + 1))
    layers_read = [layer.to(place, dtype or layer.weights.dtype) for layer in read]
    network = Network(LayerStack(folder.config, folder.image_shape, len(folder.class_names), layers_read, half))
    about = folder.about
    if wanted == folder.used_layers:
        network.readout = folder.read_readout()
    else:
        about = {key: value for key, value in about.items() if key != "readout"}
    return Model(network, folder.history(wanted), folder.labels(), about)


@dataclass(frozen=True)
class ModelFolder:
    """A model's folder of which everything but the layers has been read."""

    path: Path
    config: NetworkConfig
    image_shape: tuple[int, int, int]  # (channels, height, width)
    class_names: tuple[str, ...]
    half: bool  # trained with maps and features in half precision
    about: dict[str, Any]  # facts about the run
    records: tuple[LayerRecord, ...]  # one per layer that can be loaded
    files: tuple[LayerFile, ...]  # of these layers
    sealed: bool  # the run has ended, by its own rules or by Ctrl-C; else it is running, or was killed

    @staticmethod
    def open(path: str | Path) -> ModelFolder:
        """Read and verify ``model.json`` and ``history.jsonl`` of a model."""
        folder = Path(path)
        content = read_model_json(folder)
        lines = whole_lines(read_file(folder / HISTORY))
        check_end(folder / HISTORY, content["sealed"], lines)
        opened = ModelFolder.of(folder, content, lines)
        if not 1 <= opened.used_layers <= len(lines):
            rule = f"must use 1 to {len(lines)} layers for prediction, got {opened.used_layers}"
            raise ModelFileError(f"{folder / MODEL} {rule}. {COPY_AGAIN}")
        return opened

    @staticmethod
    def of(folder: Path, content: dict[str, Any], lines: list[dict[str, Any]]) -> ModelFolder:
        """Return the folder with this ``model.json`` and these lines of history, both verified."""
        records = tuple(read_record(folder / HISTORY, number, line) for number, line in enumerate(lines, 1))
        files = tuple(LayerFile(bytes=line["bytes"], sha256=line["sha256"]) for line in lines)
        network = read_network(folder / MODEL, content)
        half, about, sealed = content["half"], content["about"], content["sealed"] is not None
        return ModelFolder(folder, *network, half, about, records, files, sealed)

    def history(self, layers: int | None = None) -> History:
        """Return the history of the first n layers, by default of all."""
        record = self.about.get("readout", {}).get("record") if layers in (None, self.used_layers) else None
        readout = None if record is None else record_of(ReadoutRecord, record)
        return History(list(self.records[:layers]), StopReason.read(self.about.get("stopped")), readout)

    def labels(self) -> NDArray[Any]:
        """Return the labels of the classes, in the type of the training; raise ModelFileError for a forged type."""
        try:
            read_layout((self.about.get("preprocessing") or {}).get("layout"), self.image_shape)
            return read_labels(self.class_names, self.about.get("label_type"))
        except ValueError as error:
            raise ModelFileError(f"{self.path / MODEL}: about.{error} {COPY_AGAIN}") from None

    @property
    def used_layers(self) -> int:
        """Default number of layers for prediction: of the readout, as saved, or the best validation depth."""
        if readout := self.about.get("readout"):
            return int(readout["layers"])
        if saved := self.about.get("used_layers"):
            return int(saved)
        return layers_to_use(self.config, History(list(self.records)))

    def read_layer(self, number: int) -> Layer:
        """Read and verify one layer, counted from 1."""
        file = self.path / layer_name(number)
        data = read_file(file, self.files[number - 1])
        return layer_from_bytes(data, str(file), self.config, self.image_shape, len(self.class_names), number)

    def read_readout(self) -> KernelReadout | None:
        """Read and verify the kernel readout, if the model has one."""
        entry = self.about.get("readout")
        if entry is None:
            return None
        file = self.path / READOUT
        data, classes = read_file(file, entry), len(self.class_names)
        return readout_from_bytes(data, str(file), self.config, self.image_shape, classes, self.used_layers)

    @property
    def misses_readout(self) -> bool:
        """True if the configured kernel readout is missing because the run stopped early."""
        return self.config.has_kernel and "readout" not in self.about

    @property
    def how_to_fit_the_readout(self) -> str:
        """Command or call that fits a missing readout: the command needs recorded training images."""
        recorded = "fingerprints" in self.about
        return "rescnet train --resume" if recorded else "rescnet.train(..., start=model)"

    def size_on_disk(self) -> int:
        """Return the bytes of all files."""
        own = sum((self.path / name).stat().st_size for name in (MODEL, HISTORY))
        readout = int(self.about.get("readout", {}).get("bytes", 0))
        return own + readout + sum(entry["bytes"] for entry in self.files)


@dataclass(frozen=True)
class InterruptedRun:
    """Files of an interrupted run."""

    folder: ModelFolder  # with the intact layers; there may be none
    layers: list[Layer]  # the intact ones, on the CPU
    history_bytes: int  # bytes of the history that are kept
    checksum: str  # of the last line that is kept; empty if there is none
    lock: FolderLock | None  # keeps other processes from writing; the :class:`ModelWriter` that resumes releases it
    damaged: str = ""  # the damaged file of the last layer; empty if there is none
    solution: Tensor | None = None  # of the readout's system, if its fit was interrupted


def read_run(path: str | Path) -> InterruptedRun:
    """Read and verify all of a run, and lock it.

    ModelFileError says if there is no run, more than its last layer is damaged, or another process writes there.
    """
    place = Path(path)
    if place.is_dir() and not (place / MODEL).exists():
        if (place / LAYERS).is_dir() and any((place / LAYERS).iterdir()):
            raise ModelFileError(f"{place / MODEL} is missing, and the layers cannot be read without it. {COPY_AGAIN}")
        raise ModelFileError(f"{place} holds no {MODEL}, so no layer was finished there. Start a new run.")
    content = read_model_json(place)
    try:
        ComputeOptions(**content["about"].get("compute", {}))
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{place / MODEL} has unknown compute options: {error}. {COPY_AGAIN}") from None
    file = place / HISTORY
    if not file.exists() and content["sealed"]:
        raise ModelFileError(f"{file} is missing. {COPY_AGAIN}")
    lock = FolderLock(place)
    try:
        return _read_locked(place, content, lock)
    except BaseException:
        lock.release()
        raise


def _read_locked(place: Path, content: dict[str, Any], lock: FolderLock) -> InterruptedRun:
    file = place / HISTORY
    text = read_file(file) if file.exists() else b""
    lines = whole_lines(text)
    *ended, tail = text.split(b"\n")
    unread = len(ended) + bool(tail) - len(lines)
    if unread > 1:
        raise ModelFileError(f"{file} is cut short or altered after line {len(lines)}. {COPY_AGAIN}")
    lacks_last = _lacks_last_line(file, content["sealed"], lines)
    damaged = str(file) if unread or lacks_last else ""
    folder = ModelFolder.of(place, content, lines)
    layers = []
    for number in range(1, len(lines) + 1):
        try:
            layers.append(folder.read_layer(number))
        except ModelFileError:
            if number < len(lines) or damaged:
                raise
            damaged = str(place / layer_name(number))
    kept = len(layers)
    history_bytes = sum(len(line) + 1 for line in ended[:kept])
    checksum = lines[kept - 1][CHECKSUM] if kept else ""
    solution = solution_from_bytes(read_file(place / SOLUTION)) if (place / SOLUTION).exists() else None
    folder = replace(folder, records=folder.records[:kept], files=folder.files[:kept])
    return InterruptedRun(folder, layers, history_bytes, checksum, lock, damaged, solution)


def _lacks_last_line(file: Path, sealed: Seal | None, lines: list[dict[str, Any]]) -> bool:
    """Return whether only the last line of a finished run is missing or damaged; lines of another run are refused."""
    if sealed is None:
        return False
    last = lines[-1][CHECKSUM] if lines else ""
    if (len(lines), last) == (sealed["layers"], sealed["checksum"]):
        return False
    if (len(lines) + 1, last) == (sealed["layers"], sealed["previous"]):
        return True
    raise ModelFileError(f"{file} is cut short or altered, or of another run than {MODEL}. {COPY_AGAIN}")
