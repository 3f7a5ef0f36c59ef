"""A model is written as its layers come, each file whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..config.network import NetworkConfig
from ..config.option import options_of
from ..network.history import LayerRecord, ReadoutRecord, StopReason
from ..network.layer import Layer
from ..network.model import Model, as_model
from ..network.readout import KernelReadout
from .errors import WriteError
from .layer_file import layer_to_bytes
from .layout import CHECKSUM, FORMAT, HISTORY, LAYERS, MODEL, READOUT, VERSION, layer_name, sign
from .locking import FolderLock
from .places import check_place
from .reading import whole_lines
from .readout_file import readout_to_bytes
from .resuming import InterruptedRun

if TYPE_CHECKING:
    from ..estimator import ResCNetClassifier

_OF_THE_END = {"stopped", "halving", "readout", "used_layers"}  # facts about a run that no longer hold when it goes on


def save_model(
    path: str | Path, model: Model | ResCNetClassifier, half_heads: bool = False, overwrite: bool = False
) -> None:
    """Save a model.

    Parameters
    ----------
    path : str or Path
        A folder that does not exist yet, unless `overwrite`.
    model : Model or fitted ResCNetClassifier
    half_heads : bool, default False
        Store the heads' weights as float16: files of nearly half the size, and slightly other outputs.
    overwrite : bool, default False
        Replace a model that is there; it is left whole until the new one is.
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"the path is of type {type(path).__name__}: give the folder first, then the model.")
    model = as_model(model)
    network = model.network
    with ModelWriter(
        path,
        network.config,
        network.image_shape,
        model.class_names,
        model.about,
        half=network.half,
        half_heads=half_heads,
        overwrite=overwrite,
    ) as writer:
        for layer, record in zip(network.layers, model.history, strict=True):
            writer.add_layer(layer, record)
        if network.readout is not None:
            writer.add_readout(network.readout, model.history.readout, network.used_layers)
        writer.finish(model.history.stopped, used_layers=network.used_layers)


class ModelWriter:
    """Writes a model layer by layer: at any moment the folder holds a usable model of the layers added so far.

    Nothing is written before the first layer. As a context manager it seals the model at the end, also when an
    exception ends it early; a model that was never sealed, because the process was killed, can be loaded all the same.

    Parameters
    ----------
    path : str or Path
        A folder that does not exist yet, unless `overwrite`.
    config : NetworkConfig
    image_shape : tuple of int
        (channels, height, width).
    class_names : sequence of str
    about : mapping
        Facts that JSON can hold.
    half : bool, default False
        Whether the network computes maps and features in half precision (``Network.half``).
    half_heads : bool, default False
        Store the heads' weights as float16.
    overwrite : bool, default False
        Replace a model that is there: the new one is written beside it and takes its place when it is sealed.
    resumed : InterruptedRun, optional
        Go on with the run in `path` instead of starting one; `about` is added to what is told of it.
    """

    def __init__(
        self,
        path: str | Path,
        config: NetworkConfig,
        image_shape: tuple[int, int, int],
        class_names: tuple[str, ...],
        about: Mapping[str, Any],
        *,
        half: bool = False,
        half_heads: bool = False,
        overwrite: bool = False,
        resumed: InterruptedRun | None = None,
    ) -> None:
        if resumed is None:
            check_place(path, overwrite)
        self.path = Path(path)
        self.half_heads = half_heads
        self._overwrite = overwrite
        self._lock: FolderLock | None = None
        self._content: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "config": config.to_dict(),
            "image_shape": list(image_shape),
            "class_names": list(class_names),
            "half": half,
            "about": {**_without(about, _OF_THE_END), "half_heads": half_heads},
            "sealed": None,
        }
        json.dumps(self._content, allow_nan=False)  # what JSON cannot hold is refused before any work
        self._folder: Path | None = None
        self._layers = 0
        self._checksum = ""
        if resumed is not None:
            self._go_on(resumed)

    def _go_on(self, run: InterruptedRun) -> None:
        """Take up a run: no longer sealed, and without what is to be redone."""
        self._lock = run.lock
        before, now = run.content["config"], self._content["config"]
        decide = [
            name
            for name, entry in options_of(NetworkConfig).items()
            if entry.metadata["group"] == "Readout" or name == "patience"
        ]
        same = all(before.get(name) == now[name] for name in decide)
        keeps_readout = same and not run.damaged  # a damaged layer is learnt again, and may not be come to
        told = _without(run.content["about"], _OF_THE_END - {"readout"} if keeps_readout else _OF_THE_END)
        self._content["about"] = told | self._content["about"]
        self._write_model_json(self.path)
        (self.path / LAYERS).mkdir(exist_ok=True)
        self._forget_readout(unless="readout" in told)
        with (self.path / HISTORY).open("ab") as stream:
            stream.truncate(run.history_bytes)
            os.fsync(stream.fileno())
        self._folder = self.path
        self._layers, self._checksum = len(run.layers), run.checksum

    @property
    def layers(self) -> int:
        """The layers written so far."""
        return self._layers

    def add_layer(self, layer: Layer, record: LayerRecord) -> None:
        """Write one more layer, and the line of the history that makes it count."""
        folder = self._folder or self._start()
        if "readout" in self._content["about"]:
            self._forget_readout()
            self._write_model_json(folder)
        name = layer_name(self._layers + 1)
        data = layer_to_bytes(layer, self.half_heads)
        _write_whole(folder / name, data)
        facts = {"file": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        line = sign({**asdict(record), **facts}, self._checksum)
        _append_line(folder / HISTORY, line)
        self._layers, self._checksum = self._layers + 1, line[CHECKSUM]

    def _forget_readout(self, unless: bool = False) -> None:
        """Drop a readout of fewer layers, or of other options."""
        folder = self._folder or self.path
        (folder / f".{READOUT}.part").unlink(missing_ok=True)
        if not unless:
            self._content["about"].pop("readout", None)
            (folder / READOUT).unlink(missing_ok=True)

    def add_readout(self, readout: KernelReadout, record: ReadoutRecord | None, layers: int) -> None:
        """Write the readout of the first so many of the layers written; it counts once the model is sealed."""
        assert self._folder is not None
        data = readout_to_bytes(readout)
        _write_whole(self._folder / READOUT, data)
        self._content["about"]["readout"] = {
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "layers": layers,
            "record": None if record is None else asdict(record),
        }

    def finish(self, stopped: StopReason | None, **facts: Any) -> None:
        """Seal the model: note why the run stopped, more facts about it, and how many layers there are."""
        try:
            self._seal(stopped, facts)
        finally:
            if self._lock:
                self._lock.release()

    def _seal(self, stopped: StopReason | None, facts: Mapping[str, Any]) -> None:
        if self._folder is None:
            return
        # From the disk, not from memory: an interrupt may have come between writing a line and counting it.
        history = self._folder / HISTORY
        lines = whole_lines(history.read_bytes()) if history.exists() else []
        if not lines:
            return
        self._layers, self._checksum = len(lines), lines[-1][CHECKSUM]
        self._content["about"] |= {"stopped": stopped, **facts}
        self._content["sealed"] = {"layers": self._layers, CHECKSUM: self._checksum}
        self._write_model_json(self._folder)
        self._take_place()

    def __enter__(self) -> ModelWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._content["sealed"] is None:
            interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
            self.finish(StopReason.INTERRUPTED if interrupted else StopReason.FAILED if error else None)

    def _start(self) -> Path:
        """Make the folder: in its place, or beside the model it is to replace."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        check_place(self.path, self._overwrite)  # once more: another run may have been quicker
        if (self.path / MODEL).exists():
            folder = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.new-", dir=self.path.parent))
            folder.chmod(self.path.stat().st_mode & 0o777)
        else:
            folder = self.path
        (folder / LAYERS).mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(folder)
        self._write_model_json(folder)
        self._folder = folder
        return folder

    def _write_model_json(self, folder: Path) -> None:
        text = json.dumps(sign(self._content), indent=1, ensure_ascii=False, allow_nan=False)
        _write_whole(folder / MODEL, (text + "\n").encode(errors="surrogatepass"))

    def _take_place(self) -> None:
        """Put a model that was written beside an old one in its place."""
        if self._folder is None or self._folder == self.path:
            return
        old = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.old-", dir=self.path.parent))
        self.path.rename(old / "model")
        self._folder.rename(self.path)
        self._folder = self.path
        shutil.rmtree(old)


def _without(about: Mapping[str, Any], keys: set[str]) -> dict[str, Any]:
    return {key: value for key, value in about.items() if key not in keys}


def _write_whole(file: Path, data: bytes) -> None:
    """Write a file so that a reader sees all of it or nothing: beside its place, to the disk, then moved there."""
    beside = file.with_name(f".{file.name}.part")
    try:
        with beside.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:  # as of a full disk, which half a file would keep full
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise WriteError(file, error) from None
    beside.replace(file)
    _sync_folder(file.parent)


def _append_line(file: Path, line: dict[str, Any]) -> None:
    try:
        with file.open("ab") as stream:
            stream.write(json.dumps(line).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise WriteError(file, error) from None


def _sync_folder(folder: Path) -> None:
    """Have the folder's new entry on the disk too, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
