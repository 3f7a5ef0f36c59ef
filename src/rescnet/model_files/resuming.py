"""Resuming of an interrupted run: its files are verified, and a torn last layer is learned again.

A run's folder is a model's folder. A kill or a full disk can tear the last line of the history or the last layer's
file: that layer is learned again. Everything older must be intact.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.compute import ComputeOptions
from ..network.stack import Layer
from .folder import COPY_AGAIN, HISTORY, LAYERS, MODEL, FolderLock, ModelFileError, read_file
from .layout import CHECKSUM, VERSION, check_files, read_model_json, whole_lines
from .reading import ModelFolder
from .tensors import layer_from_bytes, layer_to_bytes


@dataclass(frozen=True)
class InterruptedRun:
    """Files of an interrupted run.

    Attributes
    ----------
    folder : ModelFolder
        With the intact layers; there may be none.
    content : dict
        Content of ``model.json``.
    layers : list of Layer
        The intact layers, on the CPU.
    history_bytes : int
        Bytes of the history that are kept.
    checksum : str
        Checksum of the last line that is kept.
    lines : list of dict
        Lines of the history that are kept.
    lock : FolderLock, optional
        Keeps other processes from writing there; the :class:`ModelWriter` that resumes the run releases it.
    damaged : str
        The damaged file of the last layer; empty if there is none.
    """

    folder: ModelFolder
    content: dict[str, Any]
    layers: list[Layer]
    history_bytes: int
    checksum: str
    lines: list[dict[str, Any]]
    lock: FolderLock | None
    damaged: str = ""


def read_run(path: str | Path) -> InterruptedRun:
    """Read and verify all of a run, and lock it.

    Raises
    ------
    ModelFileError
        If there is no run, more than its last layer is damaged, or another process writes there.
    """
    place = Path(path)
    if place.is_dir() and not (place / MODEL).exists():
        if (place / LAYERS).is_dir() and any((place / LAYERS).iterdir()):
            raise ModelFileError(f"{place / MODEL} is missing, and the layers cannot be read without it. {COPY_AGAIN}")
        raise ModelFileError(f"{place} holds no {MODEL}, so no layer was finished there. Start a new run.")
    content = read_model_json(place)
    if content["version"] != VERSION:
        raise ModelFileError(
            f"{place} must be of model format {VERSION} to be resumed, got {content['version']}. Train a new run."
        )
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
    if len(ended) + bool(tail) - len(lines) > 1:
        raise ModelFileError(f"{file} is cut short or altered after line {len(lines)}. {COPY_AGAIN}")
    lacks_last = _lacks_last_line(file, content["sealed"], lines)
    check_files(file, lines)
    damaged = str(file) if len(ended) + bool(tail) > len(lines) or lacks_last else ""
    folder = ModelFolder.of(place, content, lines)
    layers = []
    for number in range(1, len(lines) + 1):
        try:
            layers.append(folder.read_layer(number))
        except ModelFileError:
            if number < len(lines) or damaged:
                raise
            damaged = str(place / lines[-1]["file"])
    kept = len(layers)
    return InterruptedRun(
        folder=ModelFolder.of(place, content, lines[:kept]),
        content=content,
        layers=layers,
        history_bytes=sum(len(line) + 1 for line in ended[:kept]),
        checksum=lines[kept - 1][CHECKSUM] if kept else "",
        lines=lines[:kept],
        lock=lock,
        damaged=damaged,
    )


def _lacks_last_line(file: Path, sealed: dict[str, Any] | None, lines: list[dict[str, Any]]) -> bool:
    """Return whether only the last line of a finished run is missing or damaged; lines of another run are refused."""
    if sealed is None:
        return False
    last = lines[-1][CHECKSUM] if lines else ""
    if (len(lines), last) == (sealed.get("layers"), sealed.get(CHECKSUM)):
        return False
    if (len(lines) + 1, last) == (sealed.get("layers"), sealed.get("previous")):
        return True
    raise ModelFileError(f"{file} is cut short or altered, or of another run than {MODEL}. {COPY_AGAIN}")


def run_to_bytes(run: InterruptedRun) -> bytes:
    """Return a run as bytes, to be broadcast to the ranks that do not see its folder."""
    layers = [layer_to_bytes(layer) for layer in run.layers]
    head = {
        "path": str(run.folder.path),
        "content": run.content,
        "lines": run.lines,
        "history_bytes": run.history_bytes,
        "checksum": run.checksum,
        "damaged": run.damaged,
        "sizes": [len(layer) for layer in layers],
    }
    text = json.dumps(head).encode()
    return b"".join([len(text).to_bytes(8, "big"), text, *layers])


def run_from_bytes(data: bytes) -> InterruptedRun:
    """Return the run in the bytes of :func:`run_to_bytes`; it holds no lock."""
    start = 8 + int.from_bytes(data[:8], "big")
    head = json.loads(data[8:start])
    folder = ModelFolder.of(Path(head["path"]), head["content"], head["lines"])
    facts = folder.config, folder.image_shape, len(folder.class_names)
    layers = []
    for number, size in enumerate(head["sizes"], 1):
        layers.append(layer_from_bytes(data[start : start + size], folder.files[number - 1]["file"], *facts, number))
        start += size
    rest = {key: head[key] for key in ("content", "lines", "history_bytes", "checksum", "damaged")}
    return InterruptedRun(folder=folder, layers=layers, lock=None, **rest)
