"""Where a model may be written: a new folder, or one that holds a model and nothing else, on a disk with room."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ..formatting import show_bytes
from .errors import ModelFileError
from .layout import HISTORY, LAYERS, MODEL, READOUT
from .locking import FolderLock

_OWN_FILES = {MODEL, HISTORY, LAYERS, READOUT, f".{READOUT}.part", "report.html"}
_LEFT_BY_A_KILL = {LAYERS, HISTORY, f".{MODEL}.part"}  # before its first layer was done


def check_place(path: str | Path, overwrite: bool = False) -> None:
    """Refuse a place where a model cannot be written, or must not be."""
    folder = Path(path)
    if not folder.exists() and not folder.is_symlink():
        for parent in folder.absolute().parents:
            if parent.exists():
                try:
                    tempfile.TemporaryDirectory(dir=parent).cleanup()
                except OSError as error:
                    reason = (error.strerror or str(error)).lower()
                    raise ModelFileError(
                        f"no folder can be made in {parent} ({reason}): choose another place than {folder}."
                    ) from None
                return
    if not folder.is_dir():
        raise ModelFileError(f"{folder} is a file where a model's folder was to be made: choose another place.")
    inside = {entry.name for entry in folder.iterdir()}
    if inside <= _LEFT_BY_A_KILL and not any(file.suffix == ".safetensors" for file in folder.glob(f"{LAYERS}/*")):
        return
    if MODEL not in inside:
        raise ModelFileError(f"{folder} is there already and is no model of rescnet: choose another place.")
    if foreign := sorted(inside - _OWN_FILES):
        raise ModelFileError(
            f"{folder} also holds {foreign[0]!r}, which is no part of a model and would be lost: move it away, or "
            "choose another place."
        )
    if not overwrite:
        raise ModelFileError(
            f"{folder} holds a model already: choose another place, allow it to be replaced (overwrite=True, "
            "--overwrite), or go on with it (--resume)."
        )
    if HISTORY in inside:
        FolderLock(folder).release()


def check_space(path: str | Path, needed: int) -> None:
    """Refuse a place whose disk has less than so many bytes left."""
    there = next(parent for parent in (Path(path).absolute(), *Path(path).absolute().parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise ModelFileError(
            f"the layers will take up to {show_bytes(needed)} and {there} has {show_bytes(free)} left: make room, "
            "choose another place, or ask for fewer layers."
        )
