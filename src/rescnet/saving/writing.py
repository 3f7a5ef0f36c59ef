"""Writing of a model, layer by layer; each file is written completely or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..base.errors import ConfigError
from ..base.version import __version__
from ..config.network import NetworkConfig
from ..config.option import options_of
from ..model import HasModel, Model, as_model
from ..network.history import LayerRecord, ReadoutRecord, StopReason
from ..network.network import Network
from ..network.readout import KernelReadout
from ..network.stack import Layer
from .folder import (
    HISTORY,
    LAYERS,
    MODEL,
    READOUT,
    SOLUTION,
    FolderLock,
    append_line,
    check_folder,
    check_place,
    make_layers_folder,
    partial_of,
    read_file,
    replace_folder,
    temporary_of,
    truncate_file,
    write_file,
)
from .labels import label_type
from .layout import (
    CHECKSUM,
    FORMAT,
    VERSION,
    Content,
    LayerFile,
    layer_name,
    misfit_of,
    parse_object,
    sign,
    whole_lines,
)
from .reading import InterruptedRun
from .tensors import layer_to_bytes, readout_to_bytes, solution_to_bytes

_OF_THE_END = {"stopped", "readout", "used_layers"}  # facts that no longer hold when a run is resumed


def save_model(model: Model | HasModel, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Save a model: all of it, or nothing if an error occurs.

    Parameters
    ----------
    model : Model or fitted ResCNetClassifier
    path : str or Path
        A folder that does not exist yet, unless `overwrite`.
    overwrite : bool, default False
        Replace an existing model; it stays until the new one is complete.
    """
    if isinstance(model, str | os.PathLike):
        raise ConfigError("model must be the first argument and path the second. Write rescnet.save(model, path).")
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"path must be a folder, got {type(path).__name__}. Write rescnet.save(model, path).")
    model, place = as_model(model), Path(path)
    if not model.network.layers:
        raise ConfigError("model must have layers. Train it first.")
    check_folder(place, overwrite)
    if place.exists() and not (place / MODEL).exists():  # an empty folder is kept: it may be a mounted volume
        _write_all(place, model)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{place.name}.new-", dir=place.parent))
    try:
        _write_all(beside / "model", model)
        check_folder(place, overwrite)  # again: another process may have written there
        replace_folder(beside / "model", place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write_all(place: Path, model: Model) -> None:
    network = model.network
    writer = ModelWriter(place, network, model.labels, model.about)
    try:
        for layer, record in zip(network.layers, model.history, strict=True):
            writer.add_layer(layer, record)
        if network.readout is not None:
            writer.add_readout(network.readout, model.history.readout, network.used_layers)
        writer.finish(model.history.stopped, used_layers=network.used_layers)
    except BaseException:
        writer.discard()
        raise


class ModelWriter:
    """Writer of a model, layer by layer; at any moment the folder holds a usable model of the layers added so far.

    Nothing is written before the first layer. :meth:`finish` seals the model, also after an error. A model that was
    never sealed, because the process was killed, can be loaded too.

    An existing model is replaced when the new one is complete. Until then the new one is in a folder beside it, named
    ``<name>.partial``, where an interrupted run stays.

    The folder must not exist yet, unless ``overwrite``. The network may have no layers yet. ``about`` are facts that
    JSON can hold. With ``resumed`` the run in ``path`` is continued, and gets the facts too.
    """

    def __init__(
        self,
        path: str | Path,
        network: Network,
        labels: NDArray[Any] | Sequence[str],
        about: Mapping[str, Any],
        *,
        overwrite: bool = False,
        resumed: InterruptedRun | None = None,
    ) -> None:
        if resumed is None:
            check_place(path, overwrite)
        self.path = Path(path)
        self._overwrite = overwrite
        self._lock: FolderLock | None = None
        self._content: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "rescnet": __version__,
            "config": network.config.to_dict(),
            "image_shape": list(network.image_shape),
            "class_names": [str(label) for label in np.asarray(labels).tolist()],
            "half": network.half,
            "about": {**_without(about, _OF_THE_END), **label_type(labels)},
            "sealed": None,
        }
        _check_facts(self._content)
        self._folder: Path | None = None
        self._layers = 0
        self._checksum = ""
        if resumed is not None:
            self._resume(resumed)

    def _resume(self, run: InterruptedRun) -> None:
        """Continue a run: remove its seal, and the files of layers that are learned again."""
        self._lock = run.lock
        before, now = run.folder.config.to_dict(), self._content["config"]
        same = all(
            before[name] == now[name]
            for name, entry in options_of(NetworkConfig).items()
            if entry.metadata["group"] == "Readout" or name == "patience"
        )
        keeps_readout = same and not run.damaged  # the damaged layer may not be learned again before the run stops
        kept = _without(run.folder.about, _OF_THE_END - {"readout"} if keeps_readout else _OF_THE_END)
        self._content["about"] = kept | self._content["about"]
        make_layers_folder(self.path)
        self._write_model_json(self.path)
        for name in (READOUT, SOLUTION):
            temporary_of(self.path / name).unlink(missing_ok=True)
        if "readout" not in kept:
            (self.path / READOUT).unlink(missing_ok=True)
        truncate_file(self.path / HISTORY, run.history_bytes)
        self._folder = self.path
        self._layers, self._checksum = len(run.layers), run.checksum

    @property
    def layers(self) -> int:
        """Number of layers written so far."""
        return self._layers

    @property
    def folder(self) -> Path:
        """Folder of the layers written so far: ``path``, or the one beside it until a model is replaced."""
        return self._folder or self.path

    def add_layer(self, layer: Layer, record: LayerRecord) -> None:
        """Write one more layer, then its line in the history."""
        folder = self._folder or self._start()
        if "readout" in self._content["about"]:
            del self._content["about"]["readout"]  # it is that of fewer layers
            self._write_model_json(folder)
            (folder / READOUT).unlink(missing_ok=True)
        (folder / SOLUTION).unlink(missing_ok=True)
        entry = _write_tensors(folder / layer_name(self._layers + 1), layer_to_bytes(layer))
        line = sign({**asdict(record), **entry}, self._checksum)
        append_line(folder / HISTORY, json.dumps(line).encode())
        self._layers, self._checksum = self._layers + 1, line[CHECKSUM]

    def save_solution(self, solution: Tensor) -> None:
        """Write the solution so far of the readout's system, for a fit that is interrupted."""
        assert self._folder is not None
        write_file(self._folder / SOLUTION, solution_to_bytes(solution))

    def add_readout(self, readout: KernelReadout, record: ReadoutRecord | None, layers: int) -> None:
        """Write the readout of the first ``layers`` layers; it is part of the model once that is sealed."""
        assert self._folder is not None
        entry = _write_tensors(self._folder / READOUT, readout_to_bytes(readout))
        (self._folder / SOLUTION).unlink(missing_ok=True)
        accuracies = None if record is None else asdict(record)
        self._content["about"]["readout"] = {**entry, "layers": layers, "record": accuracies}

    def finish(self, stopped: StopReason | None, **facts: Any) -> None:
        """Seal the model with the reason why the run stopped and more facts, and put it in its place.

        A run that was interrupted or has failed replaces no existing model: it stays in :attr:`folder`.
        """
        try:
            self._seal(stopped, facts)
            complete = self._content["sealed"] and stopped not in (StopReason.INTERRUPTED, StopReason.FAILED)
            if complete and self._folder is not None and self._folder != self.path:
                replace_folder(self._folder, self.path)
                self._folder = self.path
        finally:
            if self._lock:
                self._lock.release()

    def discard(self) -> None:
        """Delete the files written so far, and no others."""
        if self._lock:
            self._lock.release()
        folder, self._folder = self._folder, None
        if folder is None:
            return
        layers = [layer_name(number) for number in range(1, self._layers + 2)]
        for name in (MODEL, HISTORY, READOUT, *layers):
            (folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            (folder / LAYERS).rmdir()

    def _seal(self, stopped: StopReason | None, facts: Mapping[str, Any]) -> None:
        if self._folder is None:
            return
        # From the disk, not from memory: an interrupt may arrive between writing a line and counting it.
        history = self._folder / HISTORY
        lines = whole_lines(read_file(history)) if history.exists() else []
        if not lines:
            return
        self._layers, self._checksum = len(lines), lines[-1][CHECKSUM]
        self._content["about"] |= {"stopped": stopped, **facts}
        previous = lines[-2][CHECKSUM] if len(lines) > 1 else ""  # identifies the run if its last line is damaged
        self._content["sealed"] = {"layers": self._layers, CHECKSUM: self._checksum, "previous": previous}
        self._write_model_json(self._folder)

    def _start(self) -> Path:
        """Create the folder: in its place, or beside the model that it replaces."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        check_place(self.path, self._overwrite)  # again: another run may have been faster
        folder = partial_of(self.path) if (self.path / MODEL).exists() else self.path
        make_layers_folder(folder)
        self._lock = FolderLock(folder)
        self._write_model_json(folder)
        self._folder = folder
        return folder

    def _write_model_json(self, folder: Path) -> None:
        text = json.dumps(sign(self._content), indent=1, ensure_ascii=False, allow_nan=False)
        write_file(folder / MODEL, (text + "\n").encode(errors="surrogatepass"))


def _write_tensors(file: Path, data: bytes) -> LayerFile:
    """Write a file, and return its size and checksum."""
    write_file(file, data)
    return LayerFile(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _check_facts(content: dict[str, Any]) -> None:
    """Raise ValueError, before any work, for facts that JSON cannot hold or that could not be loaded again."""
    try:
        parsed = parse_object(json.dumps(content, allow_nan=False).encode())
    except TypeError as error:  # its message names the type
        raise ConfigError(f"about must hold facts for JSON: {error}. Use text, numbers, lists and dicts.") from None
    except RecursionError:
        parsed = None
    if parsed is None:
        raise ConfigError("about must not be nested so deeply. Use fewer levels.")
    if misfit := misfit_of(parsed, Content):
        raise ConfigError(misfit)


def _without(about: Mapping[str, Any], keys: set[str]) -> dict[str, Any]:
    return {key: value for key, value in about.items() if key not in keys}
