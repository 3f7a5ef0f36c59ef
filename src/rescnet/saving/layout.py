"""The model format: version, checksums, and the checks of ``model.json`` and ``history.jsonl``."""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

from ..config.network import NetworkConfig
from ..config.presets import check_names
from ..config.removed import LAST_COMMIT, upgrade_config
from ..network.history import LayerRecord, ReadoutRecord
from .folder import COPY_AGAIN, LAYERS, MODEL, ModelFileError, partial_of, read_file

FORMAT = "rescnet-model"
VERSION = 5
READABLE = (1, 2, 3, 4, 5)
CHECKSUM = "checksum"

_CONTENT = {
    "config": dict,
    "image_shape": list,
    "class_names": list,
    "half": bool,
    "about": dict,
    "sealed": dict | None,
}
_LONGEST_SIDE = 2**17  # pixels
_DEEPEST = 30  # levels of nested JSON
_TEXT, _NUMBER, _COUNT, _NONE = (str,), (int, float), (int,), (type(None),)
_KINDS: dict[Any, Any] = {  # JSON types of the fields of records
    int: _COUNT,
    int | None: _COUNT + _NONE,
    float: _NUMBER,
    float | None: _NUMBER + _NONE,
    dict[str, int]: {...: _COUNT},
    dict[str, float]: {...: _NUMBER},
}
_READOUT_RECORD, _RECORD = (
    {name: _KINDS[kind] for name, kind in get_type_hints(record).items()} for record in (ReadoutRecord, LayerRecord)
)
_ABOUT: dict[str, Any] = {  # types of the facts that rescnet itself uses; {...: type} means any name
    **dict.fromkeys(("command", "dataset", "date", "device", "image_size"), _TEXT + _NONE),
    **dict.fromkeys(("preset", "root", "source", "stopped"), _TEXT + _NONE),
    "compute": {...: _TEXT},
    "fingerprints": {...: _TEXT},
    "half_heads": (bool,),
    "halving": {"images": _TEXT, "accuracy": _NUMBER, "full_accuracy": _NUMBER},
    "held_out": {"fraction": _NUMBER, "limit": _COUNT + _NONE, "seed": _COUNT, "sha256": _TEXT + _NONE},
    "images": {...: _COUNT},
    "preprocessing": {"pixels": _TEXT, "low": _NUMBER, "high": _NUMBER},
    "refit": (bool,),
    "readout": {"bytes": _COUNT, "sha256": _TEXT, "layers": _COUNT, "record": _READOUT_RECORD},
    "training_files": (list, *_NONE),
    "training_checksums": _TEXT + _NONE,
    "used_layers": _COUNT,
    "versions": {...: _TEXT},
}
_REQUIRED = {
    "halving": ("images", "accuracy", "full_accuracy"),
    "held_out": ("fraction", "limit", "seed", "sha256"),
    "readout": ("bytes", "sha256"),
}
_OPTIONAL = {"halving", "held_out", "readout", "readout.record"}  # objects that may be null


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


def misfit_of(about: dict[str, Any]) -> str:
    """Return a sentence about the first fact that is of another type than rescnet uses; empty if there is none.

    Examples
    --------
    >>> misfit_of({"images": {"train": "many"}, "author": 5})
    "images.train must be int, got 'many'."
    """
    for name, keys in _REQUIRED.items():
        facts = about.get(name)
        if isinstance(facts, dict) and (missing := sorted(set(keys) - facts.keys())):
            return f"{name}.{missing[0]} must be given."
    return _misfit(about, _ABOUT, "")


def _misfit(value: Any, kind: Any, name: str) -> str:
    """Return a sentence about the first value that is not of the types of ``kind``."""
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            return "" if value is None and name in _OPTIONAL else f"{name} must be an object, got {value!r:.60}."
        found = (
            _misfit(part, kind.get(key, kind.get(...)), f"{name}.{key}".lstrip("."))
            for key, part in value.items()
            if key in kind or ... in kind
        )
        return next(filter(None, found), "")
    if isinstance(value, bool):
        fits = bool in kind
    elif isinstance(value, int | float):
        fits = type(value) in kind and abs(value) < 2**63  # False for NaN
    else:
        fits = isinstance(value, kind)
    names = " or ".join("null" if each is type(None) else each.__name__ for each in kind)
    return "" if fits else f"{name} must be {names}, got {value!r:.60}."


def read_model_json(folder: Path) -> dict[str, Any]:
    """Return the verified content of ``model.json``."""
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
    version = content.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ModelFileError(f"{file} must be of model format {VERSION} or earlier, got {version}. Update rescnet.")
    if version not in READABLE or not is_signed(content):
        raise ModelFileError(f"{file} was altered: its checksum does not match. {COPY_AGAIN}")
    for key, kind in _CONTENT.items():
        if key not in content or not isinstance(content[key], kind):
            raise ModelFileError(f"{file} has no valid {key!r}. {COPY_AGAIN}")
    if misfit := misfit_of(content["about"]):
        raise ModelFileError(f"{file}: about.{misfit} {COPY_AGAIN}")
    return content


def read_network(file: Path, content: dict[str, Any]) -> tuple[NetworkConfig, tuple[int, int, int], tuple[str, ...]]:
    """Return the configuration, the image shape and the class names of ``model.json``."""
    shape, names = content["image_shape"], content["class_names"]
    if len(shape) != 3 or not all(type(side) is int and 0 < side <= _LONGEST_SIDE for side in shape):
        raise ModelFileError(f"{file} must have an image shape of three sides, got {repr(shape)[:60]}. {COPY_AGAIN}")
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise ModelFileError(f"{file} has no list of class names. {COPY_AGAIN}")
    version = content["version"]
    try:
        options = upgrade_config(content["config"], version) if version < VERSION else content["config"]
        check_names(options, "the configuration")
        config = NetworkConfig(**options)
        config.check_images(shape[0], (shape[1], shape[2]))
    except (ValueError, TypeError) as error:
        known = "" if version > 1 or "at commit" in str(error) else f" The last commit that reads it is {LAST_COMMIT}."
        raise ModelFileError(f"{file} has an unknown option or value: {error}{known}") from None
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


def check_end(file: Path, sealed: dict[str, Any] | None, lines: list[dict[str, Any]]) -> None:
    """Check that a finished model has all its layers; a killed run has those that were written."""
    if sealed is not None:
        last = lines[-1][CHECKSUM] if lines else ""
        if len(lines) != sealed.get("layers") or last != sealed.get(CHECKSUM):
            raise ModelFileError(
                f"{file} is cut short or altered: {len(lines)} of {sealed.get('layers')!r:.20} layers are intact. "
                f"{COPY_AGAIN}"
            )
    if not lines:
        raise ModelFileError(f"{file} has no complete layer: the run stopped before its first was finished.")
    check_files(file, lines)


def check_files(file: Path, lines: list[dict[str, Any]]) -> None:
    """Raise ModelFileError if a line of the history names another file than that of its layer."""
    for number, line in enumerate(lines, 1):
        size = line.get("bytes")
        sized = type(size) is int and 0 <= size < 2**63
        if line.get("file") != layer_name(number) or not sized or "sha256" not in line:
            raise ModelFileError(f"{file} must name the file of layer {number} on line {number}. {COPY_AGAIN}")


def read_record(file: Path, number: int, line: dict[str, Any]) -> LayerRecord:
    """Return the record on a line of the history."""
    for entry in fields(LayerRecord):
        if entry.name not in line and entry.default is MISSING and entry.default_factory is MISSING:
            raise ModelFileError(f"{file} has no {entry.name!r} on line {number}. {COPY_AGAIN}")
    misfit = _misfit(line, _RECORD, "")
    if misfit or line["layer"] != number:
        raise ModelFileError(f"{file}, line {number}: {misfit or f'layer must be {number}.'} {COPY_AGAIN}")
    return LayerRecord(**{entry.name: line[entry.name] for entry in fields(LayerRecord) if entry.name in line})
