"""A model's folder is read lazily, and nothing of it is believed before it is verified."""

from __future__ import annotations

import hashlib
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from ..config.network import NetworkConfig
from ..config.presets import check_names
from ..config.removed import LAST_COMMIT, upgrade_config
from ..network.depth import depth_to_use
from ..network.history import History, LayerRecord, ReadoutRecord, StopReason
from ..network.layer import Layer
from ..network.model import Model
from ..network.network import Network
from ..network.readout import KernelReadout
from ..network.stack import LayerStack
from .errors import ModelFileError
from .layer_file import layer_from_bytes
from .layout import (
    CHECKSUM,
    COPY_AGAIN,
    FORMAT,
    HISTORY,
    MODEL,
    READABLE,
    READOUT,
    VERSION,
    is_signed,
    layer_name,
    parse_object,
)
from .readout_file import readout_from_bytes

_CONTENT = {
    "config": dict,
    "image_shape": list,
    "class_names": list,
    "half": bool,
    "about": dict,
    "sealed": dict | None,
}


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
        Load the first so many layers only; no file of another layer is opened, and the history is as long. By default
        all; of a model trained with ``patience`` those that were best on validation images, which a kernel readout
        goes with.
    device : device or str, default "cpu"
    dtype : torch.dtype, optional
        The floating type to compute in; by default the one it was trained in. A network that was trained with maps in
        half precision computes so on a GPU only, and only if no other type is asked for.

    Raises
    ------
    ModelFileError
        If there is no model, or a file of it is cut short, altered, foreign, or of a later version.
    """
    folder = ModelFolder.open(path)
    wanted = folder.depth if layers is None else layers
    if not 1 <= wanted <= len(folder.records):
        raise ValueError(
            f"{wanted} layers were asked of a model that has {len(folder.records)}: choose 1 to {len(folder.records)}."
        )
    half = folder.half and torch.device(device).type == "cuda" and dtype in (None, torch.float32)
    network = Network(LayerStack(folder.config, folder.image_shape, len(folder.class_names), half=half))
    for number in range(1, wanted + 1):
        layer = folder.read_layer(number)
        network.layers.append(layer.to(torch.device(device), dtype or layer.weights.dtype))
    about = folder.about
    if wanted == folder.depth:
        network.readout = folder.read_readout()
    else:
        about = {key: value for key, value in about.items() if key != "readout"}
    return Model(network, folder.history(wanted), folder.class_names, about)


@dataclass(frozen=True)
class ModelFolder:
    """A model's folder of which everything but the layers has been read.

    Attributes
    ----------
    path : Path
    config : NetworkConfig
    image_shape : tuple of int
        (channels, height, width).
    class_names : tuple of str
    half : bool
        Whether it was trained with maps and features in half precision.
    about : dict
    records : tuple of LayerRecord
        One a layer that can be loaded.
    files : tuple of dict
        Of each layer's file: ``file``, ``bytes`` and ``sha256``.
    sealed : bool
        Whether the run came to an end, by itself or by Ctrl-C; False: it goes on, or was killed.
    """

    path: Path
    config: NetworkConfig
    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    half: bool
    about: dict[str, Any]
    records: tuple[LayerRecord, ...]
    files: tuple[dict[str, Any], ...]
    sealed: bool

    @staticmethod
    def open(path: str | Path) -> ModelFolder:
        """Read and verify a model's ``model.json`` and ``history.jsonl``."""
        folder = Path(path)
        content = read_model_json(folder)
        lines = whole_lines(_read(folder / HISTORY))
        _check_end(folder, content["sealed"], lines)
        return ModelFolder.of(folder, content, lines)

    @staticmethod
    def of(folder: Path, content: dict[str, Any], lines: list[dict[str, Any]]) -> ModelFolder:
        """Return the folder that has this ``model.json`` and these lines of history, both verified."""
        records = tuple(_record(folder / HISTORY, number, line) for number, line in enumerate(lines, 1))
        config, image_shape, class_names = _network_facts(folder / MODEL, content)
        return ModelFolder(
            path=folder,
            config=config,
            image_shape=image_shape,
            class_names=class_names,
            half=content["half"],
            about=content["about"],
            records=records,
            files=tuple({key: line[key] for key in ("file", "bytes", "sha256")} for line in lines),
            sealed=content["sealed"] is not None,
        )

    def history(self, layers: int | None = None) -> History:
        """Return the history of the first so many layers, all if not said."""
        record = (self.about.get("readout") or {}).get("record") if layers in (None, self.depth) else None
        known = {entry.name for entry in fields(ReadoutRecord)}
        readout = ReadoutRecord(**{key: record[key] for key in record.keys() & known}) if record else None
        return History(list(self.records[:layers]), StopReason.read(self.about.get("stopped")), readout)

    @property
    def depth(self) -> int:
        """Layers used where nobody says how many: those of the readout, if any, as saved, or as patience has it."""
        if readout := self.about.get("readout"):
            return int(readout.get("layers", len(self.records)))
        if saved := self.about.get("used_layers"):
            return int(saved)
        return depth_to_use(self.config, History(list(self.records))) or len(self.records)

    def read_layer(self, number: int) -> Layer:
        """Read and verify one layer, counted from 1."""
        facts = self.files[number - 1]
        file = self.path / facts["file"]
        data = _read_verified(file, facts)
        return layer_from_bytes(data, str(file), self.config, self.image_shape, len(self.class_names), number)

    def read_readout(self) -> KernelReadout | None:
        """Read and verify the kernel readout, if the model has one."""
        facts = self.about.get("readout")
        if facts is None:
            return None
        file = self.path / READOUT
        return readout_from_bytes(_read_verified(file, facts), str(file), self.image_shape, len(self.class_names))

    @property
    def misses_readout(self) -> bool:
        """Whether a kernel readout was asked for and not come to: the run was stopped before."""
        return self.config.readout == "kernel" and not self.about.get("readout")

    def size_on_disk(self) -> int:
        """Return the bytes of all files."""
        own = sum((self.path / name).stat().st_size for name in (MODEL, HISTORY))
        readout = int((self.about.get("readout") or {}).get("bytes", 0))
        return own + readout + sum(int(facts["bytes"]) for facts in self.files)


def whole_lines(text: bytes) -> list[dict[str, Any]]:
    """Return the lines of a history up to the first that is torn or altered."""
    lines: list[dict[str, Any]] = []
    for text_line in text.split(b"\n")[:-1]:  # what follows the last newline was not written to its end
        line = parse_object(text_line)
        if line is None or not is_signed(line, lines[-1][CHECKSUM] if lines else ""):
            break
        lines.append(line)
    return lines


def read_model_json(folder: Path) -> dict[str, Any]:
    """Return the content of ``model.json``, verified."""
    file = folder / MODEL
    if not folder.exists():
        raise ModelFileError(f"there is no model {folder}: check the path.")
    if not file.is_file():
        raise ModelFileError(f"{folder} is no model of rescnet, it has no {MODEL}: give the folder `train` wrote.")
    content = parse_object(_read(file))
    if content is None:
        raise ModelFileError(f"{file} is not a JSON object, or is cut short: {COPY_AGAIN}.")
    if content.get("format") != FORMAT:
        raise ModelFileError(f"{file} was not written by rescnet, its format is {content.get('format')!r:.60}.")
    version = content.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ModelFileError(
            f"{file} was saved by a later version of rescnet (format {version}; this one reads {VERSION}): "
            "update rescnet."
        )
    if version not in READABLE or not is_signed(content):
        raise ModelFileError(f"{file} was altered, its checksum does not fit: {COPY_AGAIN}.")
    for key, kind in _CONTENT.items():
        if not isinstance(content.get(key), kind):
            raise ModelFileError(f"{file} has no valid {key!r}: {COPY_AGAIN}.")
    return content


def _check_end(folder: Path, sealed: dict[str, Any] | None, lines: list[dict[str, Any]]) -> None:
    """See that a finished model has all its layers; one that was killed has those that were written."""
    file = folder / HISTORY
    if sealed is not None:
        last = lines[-1][CHECKSUM] if lines else ""
        if len(lines) != sealed.get("layers") or last != sealed.get(CHECKSUM):
            raise ModelFileError(
                f"{file} is cut short or altered, {len(lines)} of {sealed.get('layers')} layers are as they were "
                f"written: {COPY_AGAIN}."
            )
    if not lines:
        raise ModelFileError(f"{file} names no whole layer: the run was stopped before its first was done.")
    check_files(file, lines)


def check_files(file: Path, lines: list[dict[str, Any]]) -> None:
    """Refuse a history whose lines name other files than those of their layers."""
    for number, line in enumerate(lines, 1):
        if line.get("file") != layer_name(number) or not isinstance(line.get("bytes"), int) or "sha256" not in line:
            raise ModelFileError(f"{file} does not name the file of layer {number} on its line: {COPY_AGAIN}.")


def _record(file: Path, number: int, line: dict[str, Any]) -> LayerRecord:
    for entry in fields(LayerRecord):
        if entry.name not in line and entry.default is MISSING and entry.default_factory is MISSING:
            raise ModelFileError(f"{file} has no {entry.name!r} on line {number}: {COPY_AGAIN}.")
    return LayerRecord(**{entry.name: line[entry.name] for entry in fields(LayerRecord) if entry.name in line})


def _network_facts(file: Path, content: dict[str, Any]) -> tuple[NetworkConfig, tuple[int, int, int], tuple[str, ...]]:
    shape, names = content["image_shape"], content["class_names"]
    if len(shape) != 3 or not all(isinstance(side, int) and side > 0 for side in shape):
        raise ModelFileError(f"{file} has the image shape {shape!r:.60}: {COPY_AGAIN}.")
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise ModelFileError(f"{file} has no list of class names: {COPY_AGAIN}.")
    old = content["version"] == 1
    try:
        options = upgrade_config(content["config"]) if old else content["config"]
        check_names(options, "the configuration")
        config = NetworkConfig(**options)
        config.check_images(shape[0], (shape[1], shape[2]))
    except ValueError as error:
        known = f" The last commit that reads it is {LAST_COMMIT}." if old and LAST_COMMIT not in str(error) else ""
        raise ModelFileError(f"{file} must hold options that this version knows. {error}{known}") from None
    return config, (shape[0], shape[1], shape[2]), tuple(names)


def _read_verified(file: Path, facts: dict[str, Any]) -> bytes:
    """Return a file's content if it has the ``bytes`` and the ``sha256`` that were written."""
    try:
        size = file.stat().st_size
    except OSError as error:
        raise _cannot_read(file, error) from None
    if size != facts["bytes"]:
        raise ModelFileError(f"{file} has {size:,} bytes where {facts['bytes']:,} were written: {COPY_AGAIN}.")
    data = _read(file)
    if hashlib.sha256(data).hexdigest() != facts["sha256"]:
        raise ModelFileError(f"{file} is not what was written, its SHA-256 differs: {COPY_AGAIN}.")
    return data


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _cannot_read(file, error) from None


def _cannot_read(file: Path, error: OSError) -> ModelFileError:
    return ModelFileError(f"{file} cannot be read ({(error.strerror or str(error)).lower()}): {COPY_AGAIN}.")
