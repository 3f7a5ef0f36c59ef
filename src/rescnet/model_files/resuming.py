"""A run that was interrupted is taken up again: what it left behind is verified, and what is torn is redone.

A run's folder is a model's folder. Of one that was killed, or whose disk was full, the last line of the history or the
last layer's file may be torn: that layer is learnt again. Anything older must be as it was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..network import Layer
from .errors import ModelFileError
from .layout import CHECKSUM, COPY_AGAIN, HISTORY, MODEL
from .locking import FolderLock
from .reading import ModelFolder, check_names, read_model_json, whole_lines


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
    lock : FolderLock
        No other process may write there; whoever writes on takes it over.
    damaged : str
        The file whose damage costs the last layer, or nothing.
    """

    folder: ModelFolder
    content: dict[str, Any]
    layers: list[Layer]
    history_bytes: int
    checksum: str
    lock: FolderLock
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
        raise ModelFileError(f"{place} holds no {MODEL}, so no layer was finished there: start the run anew.")
    content = read_model_json(place)
    lock = FolderLock(place)
    file = place / HISTORY
    text = file.read_bytes() if file.exists() else b""
    lines = whole_lines(text)
    *ended, tail = text.split(b"\n")
    expected = (content["sealed"] or {}).get("layers", 0)
    if len(ended) + bool(tail) - len(lines) > 1 or len(lines) < expected - 1:
        raise ModelFileError(f"{file} is cut short or altered after line {len(lines)}: {COPY_AGAIN}.")
    check_names(file, lines)
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
        lock=lock,
        damaged=damaged,
    )
