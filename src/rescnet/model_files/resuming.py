"""A run that was interrupted is taken up again: what it left behind is verified, and what is torn is redone.

A run's folder is a model's folder. Of one that was killed, or whose disk was full, the last line of the history or the
last layer's file may be torn: that layer is learnt again. Anything older must be as it was written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..network.layer import Layer
from .errors import ModelFileError
from .layer_file import layer_from_bytes, layer_to_bytes
from .layout import CHECKSUM, COPY_AGAIN, HISTORY, LAYERS, MODEL, VERSION
from .locking import FolderLock
from .reading import ModelFolder, check_files, read_model_json, whole_lines


@dataclass(frozen=True)
class InterruptedRun:
    """What a run has left behind.

    Attributes
    ----------
    folder : ModelFolder
        With the layers that are whole; there may be none.
    content : dict
        Of ``model.json``.
    layers : list of Layer
        On the CPU.
    history_bytes : int
        What of the history is kept.
    checksum : str
        Of its last line that is kept.
    lines : list of dict
        Of the history, as far as it is kept.
    lock : FolderLock, optional
        No other process may write there; whoever writes on takes it over.
    damaged : str
        The file whose damage costs the last layer, or nothing.
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
        If there is none, or something other than its last layer is damaged, or another process writes there; the
        message names the file.
    """
    place = Path(path)
    if place.is_dir() and not (place / MODEL).exists():
        if (place / LAYERS).is_dir() and any((place / LAYERS).iterdir()):
            raise ModelFileError(f"{place / MODEL} is gone, and its layers mean nothing without it: {COPY_AGAIN}.")
        raise ModelFileError(f"{place} holds no {MODEL}, so no layer was finished there: start the run anew.")
    content = read_model_json(place)
    if content["version"] != VERSION:
        raise ModelFileError(
            f"{place} must be of model format {VERSION} to be resumed, got {content['version']}. Train a new run."
        )
    file = place / HISTORY
    if not file.exists() and content["sealed"]:
        raise ModelFileError(f"{file} is gone: {COPY_AGAIN}.")
    lock = FolderLock(place)
    text = file.read_bytes() if file.exists() else b""
    lines = whole_lines(text)
    *ended, tail = text.split(b"\n")
    expected = (content["sealed"] or {}).get("layers", 0)
    if len(ended) + bool(tail) - len(lines) > 1 or len(lines) < expected - 1:
        raise ModelFileError(f"{file} is cut short or altered after line {len(lines)}: {COPY_AGAIN}.")
    check_files(file, lines)
    damaged = str(file) if len(ended) + bool(tail) > len(lines) or len(lines) < expected else ""
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


def run_to_bytes(run: InterruptedRun) -> bytes:
    """Return a run that was read, for workers that do not see its folder."""
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
    """Return what :func:`run_to_bytes` sent; it holds no lock."""
    start = 8 + int.from_bytes(data[:8], "big")
    head = json.loads(data[8:start])
    folder = ModelFolder.of(Path(head["path"]), head["content"], head["lines"])
    facts = folder.config, folder.image_shape, len(folder.class_names)
    layers = []
    for number, size in enumerate(head["sizes"], 1):
        layers.append(layer_from_bytes(data[start : start + size], folder.files[number - 1]["file"], *facts, number))
        start += size
    told = {key: head[key] for key in ("content", "lines", "history_bytes", "checksum", "damaged")}
    return InterruptedRun(folder=folder, layers=layers, lock=None, **told)
