"""The model format: its number, the types in ``model.json`` and ``history.jsonl``, and checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypedDict, TypeVar, get_args, get_origin, is_typeddict

from ..base.errors import ModelFileError
from ..base.version import __version__
from ..config.network import NetworkConfig
from ..config.option import declared_types
from ..config.presets import check_names
from ..network.history import LayerRecord, ReadoutRecord
from .folder import COPY_AGAIN, LAYERS, MODEL, partial_of, read_file

FORMAT = "rescnet-model"
VERSION = 6  # of the format; earlier versions of rescnet had 1 to 5
CHECKSUM = "checksum"

_LONGEST_SIDE = 2**17  # pixels
_DEEPEST = 30  # levels of nested JSON
_Record = TypeVar("_Record", LayerRecord, ReadoutRecord)


class LayerFile(TypedDict):
    """Facts about a layer's file, beside the layer's record on a line of the history."""

    bytes: int
    sha256: str


class ReadoutFile(LayerFile):
    """Facts about the readout's file."""

    layers: int  # that it was fitted to
    record: ReadoutRecord | None


class Layout(TypedDict):
    """Layout of one training image (:class:`rescnet.network.layouts.ImageLayout`)."""

    shape: list[int]
    channels: str


class Preprocessing(TypedDict, total=False):
    """Units and layout of the training images."""

    layout: Layout

    pixels: str
    low: float
    high: float


class HeldOut(TypedDict):
    """Split that the validation images came from."""

    fraction: float
    limit: int | None
    seed: int
    sha256: str | None


class About(TypedDict, total=False):
    """Facts about a run that rescnet itself reads; others may be of any type."""

    command: str | None
    compute: dict[str, str]
    dataset: str | None
    date: str | None
    device: str | None
    fingerprints: dict[str, str]
    held_out: HeldOut | None
    image_size: str | None
    images: dict[str, int]
    label_type: str
    preprocessing: Preprocessing
    preset: str | None
    readout: ReadoutFile
    refit: bool
    root: str | None
    source: str | None
    stopped: str | None
    training_checksums: str | None
    training_files: list[str] | None
    used_layers: int
    versions: dict[str, str]


class Seal(TypedDict):
    """End of a run."""

    layers: int
    checksum: str  # of the last line of the history
    previous: str  # of the line before it


class Content(TypedDict):
    """Content of ``model.json``."""

    format: str
    version: int
    rescnet: str  # version that wrote the model
    config: dict[str, Any]
    image_shape: list[int]
    class_names: list[str]
    half: bool
    about: About
    sealed: Seal | None


def layer_name(number: int) -> str:
    """Return the file of a layer, counted from 1.

    Examples
    --------
    >>> layer_name(1)
    'layers/00001.safetensors'
    """
    return f"{LAYERS}/{number:05}.safetensors"


def sign(content: dict[str, Any], previous: str = "") -> dict[str, Any]:
    """Return the content with its checksum, which also covers ``previous``, the checksum before it."""
    return {**content, CHECKSUM: checksum_of(content, previous)}


def is_signed(content: dict[str, Any], previous: str = "") -> bool:
    """Return whether the content has the checksum that :func:`sign` gave it."""
    return content.get(CHECKSUM) == checksum_of(content, previous)


def checksum_of(content: dict[str, Any], previous: str = "") -> str:
    """Return the SHA-256 of the content; the order of keys and white space do not matter."""
    plain = {key: value for key, value in content.items() if key != CHECKSUM}
    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256((previous + canonical).encode()).hexdigest()


def parse_object(text: bytes) -> dict[str, Any] | None:
    """Return a JSON object, or None if the text is not one, or is nested too deeply."""
    try:
        content = json.loads(text.decode(errors="surrogatepass"))
    except (ValueError, RecursionError):
        return None
    level = [content]
    for _ in range(_DEEPEST):
        level = [
            part
            for value in level
            if isinstance(value, dict | list)
            for part in (value.values() if isinstance(value, dict) else value)
        ]
    return content if isinstance(content, dict) and not level else None


def misfit_of(value: Any, kind: Any, name: str = "") -> str:
    """Return a sentence about the first part of a JSON value that is not of a type; empty if there is none.

    An object of the type of a dataclass or a ``TypedDict`` may have more keys than this.

    Examples
    --------
    >>> misfit_of({"images": {"train": "many"}, "author": 5}, About)
    "images.train must be int, got 'many'."
    """
    if kind is Any or (isinstance(kind, UnionType) and value is None):
        return ""
    if isinstance(kind, UnionType):  # of a type and None
        kind = get_args(kind)[0]
    parts: Iterable[tuple[str, Any, Any]] = ()
    if is_typeddict(kind) or is_dataclass(kind) or get_origin(kind) is dict:
        if not isinstance(value, dict):
            return f"{name} must be an object, got {value!r:.60}."
        kinds = dict.fromkeys(value, get_args(kind)[-1]) if get_origin(kind) is dict else declared_types(kind)
        if missing := [key for key in _required(kind) if key not in value]:
            return f"{name}.{missing[0]} must be given.".removeprefix(".")
        parts = ((f"{name}.{key}".removeprefix("."), value[key], part) for key, part in kinds.items() if key in value)
    elif get_origin(kind) is list and isinstance(value, list):
        parts = ((f"{name}[{index}]", part, get_args(kind)[0]) for index, part in enumerate(value))
    elif not _is_of(value, kind):
        return f"{name} must be {(get_origin(kind) or kind).__name__}, got {value!r:.60}."
    return next(filter(None, (misfit_of(part, part_kind, part_name) for part_name, part, part_kind in parts)), "")


def _required(kind: Any) -> list[str]:
    """Return the keys that an object of a type must have: the fields of a dataclass without a default."""
    if is_dataclass(kind):
        return [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
    return sorted(kind.__required_keys__) if is_typeddict(kind) else []


def _is_of(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type of JSON; a number must be finite, and a whole one not too large."""
    fits = type(value) in ((int, float) if kind is float else (kind,))
    return fits and (not isinstance(value, int | float) or abs(value) < 2**63)


def record_of(kind: type[_Record], content: dict[str, Any]) -> _Record:
    """Return the record in checked JSON; keys of a later version are left out."""
    return kind(**{entry.name: content[entry.name] for entry in fields(kind) if entry.name in content})


def read_model_json(folder: Path) -> dict[str, Any]:
    """Return the verified content of ``model.json``, which has the type :class:`Content`."""
    file = folder / MODEL
    if not folder.exists():
        partial = partial_of(folder)
        where = f"One that was to be put there is in {partial}: rename it." if partial.is_dir() else "Check the path."
        raise ModelFileError(f"there is no model {folder}. {where}")
    if not file.exists():
        raise ModelFileError(f"{folder} must be a model's folder, but has no {MODEL}. Use one that `train` wrote.")
    content = parse_object(read_file(file))
    if content is None:
        raise ModelFileError(f"{file} must be a JSON object, but is not, or is cut short. {COPY_AGAIN}")
    if content.get("format") != FORMAT:
        raise ModelFileError(f"{file} was not written by rescnet: its format is {content.get('format')!r:.60}.")
    if content.get("version") != VERSION:
        raise ModelFileError(
            f"{file} must be of model format {VERSION} (rescnet {__version__}), got {content.get('version')!r:.20}"
            f"{_writer_of(content)}: train the model again, or use the version that wrote it."
        )
    if not is_signed(content):
        raise ModelFileError(f"{file} was altered: its checksum does not match. {COPY_AGAIN}")
    if misfit := misfit_of(content, Content):
        raise ModelFileError(f"{file}: {misfit} {COPY_AGAIN}")
    return content


def _writer_of(content: dict[str, Any]) -> str:
    """Return the version of rescnet that wrote a model of any format, if it is recorded."""
    about = content.get("about")
    versions = about.get("versions") if isinstance(about, dict) else None
    writer = content.get("rescnet") or (versions.get("rescnet") if isinstance(versions, dict) else None)
    return f" (rescnet {writer:.20})" if isinstance(writer, str) else ""


def read_network(file: Path, content: dict[str, Any]) -> tuple[NetworkConfig, tuple[int, int, int], tuple[str, ...]]:
    """Return the configuration, the image shape and the class names of ``model.json``."""
    shape, names = content["image_shape"], content["class_names"]
    if len(shape) != 3 or not all(0 < side <= _LONGEST_SIDE for side in shape):
        raise ModelFileError(f"{file} must have an image shape of three sides, got {repr(shape)[:60]}. {COPY_AGAIN}")
    if len(names) < 2:
        raise ModelFileError(f"{file} must have two class names at least, got {len(names)}. {COPY_AGAIN}")
    try:
        check_names(content["config"], "the configuration")
        config = NetworkConfig(**content["config"])
        config.check_images(shape[0], (shape[1], shape[2]))
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{file} has an unknown option or value: {error}") from None
    return config, (shape[0], shape[1], shape[2]), tuple(names)


def whole_lines(text: bytes) -> list[dict[str, Any]]:
    """Return the lines of a history up to the first that is torn or altered."""
    lines: list[dict[str, Any]] = []
    for text_line in text.split(b"\n")[:-1]:  # the text after the last newline is torn
        line = parse_object(text_line)
        if line is None or not is_signed(line, lines[-1][CHECKSUM] if lines else ""):
            break
        lines.append(line)
    return lines


def check_end(file: Path, sealed: Seal | None, lines: list[dict[str, Any]]) -> None:
    """Check that a finished model has all its layers; a killed run has those that were written."""
    last = lines[-1][CHECKSUM] if lines else ""
    if sealed is not None and (len(lines), last) != (sealed["layers"], sealed["checksum"]):
        raise ModelFileError(
            f"{file} is cut short or altered: {len(lines)} of {sealed['layers']} layers are intact. {COPY_AGAIN}"
        )
    if not lines:
        raise ModelFileError(f"{file} has no complete layer: the run stopped before its first was finished.")


def read_record(file: Path, number: int, line: dict[str, Any]) -> LayerRecord:
    """Return the record on a line of the history, whose facts about the layer's file are checked too."""
    misfit = misfit_of(line, LayerRecord) or misfit_of(line, LayerFile)
    if misfit or line["layer"] != number:
        raise ModelFileError(f"{file}, line {number}: {misfit or f'layer must be {number}.'} {COPY_AGAIN}")
    return record_of(LayerRecord, line)
