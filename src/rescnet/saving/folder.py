"""A model's folder: names and errors of its files, safe reading and writing, the lock, and checks before writing."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base.errors import ModelFileError
from ..base.files import atomic_write
from ..base.text import show_bytes

try:
    import fcntl
except ImportError:  # Windows: two writers are not detected
    fcntl = None  # type: ignore[assignment]

MODEL, HISTORY, LAYERS, READOUT = "model.json", "history.jsonl", "layers", "readout.safetensors"
SOLUTION = "readout-solution.safetensors"  # of an interrupted fit
COPY_AGAIN = "Copy the model again or train it again."

_PARTS = {f".{name}.part" for name in (MODEL, READOUT, SOLUTION)}
_OWN_FILES = {MODEL, HISTORY, LAYERS, READOUT, SOLUTION, *_PARTS, "report.html"}
_LEFT_BY_A_KILL = {LAYERS, HISTORY, f".{MODEL}.part"}  # before the first layer was finished
_SAFE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # no waiting for the other end of a pipe
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class WriteError(OSError):
    """A file that could not be written completely, e.g. on a full disk; the message names it."""

    def __init__(self, file: Path, error: OSError) -> None:
        super().__init__(error.errno, error.strerror or str(error), str(file))

    def __str__(self) -> str:
        reason = str(self.strerror).lower()
        return f"{self.filename} cannot be written ({reason}). Free space there or raise the limit, then try again."


class FolderLock:
    """Lock of a run's folder for this process, held on its history; the system releases it when the process ends.

    ModelFileError is raised if another process writes there.
    """

    _descriptor: int | None = None

    def __init__(self, folder: Path) -> None:
        if fcntl is None:
            return
        descriptor = _open_own(folder / HISTORY, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ModelFileError(
                f"{folder} is being written to by another process. Wait for it or use another folder."
            ) from None
        except OSError:  # a file system without locks
            os.close(descriptor)
            return
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        with suppress(KeyboardInterrupt, OSError):  # a second Ctrl-C may arrive here
            self.release()


def partial_of(folder: Path) -> Path:
    """Return the folder beside a model in which the run that will replace it is written."""
    return folder.with_name(f"{folder.name}.partial")


def check_place(path: str | Path, overwrite: bool = False) -> None:
    """Raise ModelFileError if a run cannot or must not be written to a folder, or beside the model in it."""
    check_folder(path, overwrite)
    partial = partial_of(Path(path))
    if (Path(path) / MODEL).exists() and partial.exists():
        try:
            check_folder(partial)
        except ModelFileError:
            raise ModelFileError(
                f"{partial} holds a run that was to replace {path}. Resume it (--resume {partial}) or delete it."
            ) from None


def check_folder(path: str | Path, overwrite: bool = False) -> None:
    """Raise ModelFileError if a model cannot or must not be written to a folder."""
    folder = Path(path)
    if not folder.exists() and not folder.is_symlink():
        _check_parent(folder)
        return
    if not folder.is_dir():
        raise ModelFileError(f"{folder} must be a folder, got a file. Use another place.")
    inside = {entry.name for entry in folder.iterdir()}
    if inside <= _LEFT_BY_A_KILL and not any(file.suffix == ".safetensors" for file in folder.glob(f"{LAYERS}/*")):
        return
    if MODEL not in inside:
        raise ModelFileError(f"{folder} must be empty or a model of rescnet. Use another folder.")
    if foreign := sorted(inside - _OWN_FILES):
        raise ModelFileError(
            f"{folder} must hold a model only, got {foreign[0]!r} too, which would be lost. Move it or use another "
            "folder."
        )
    if not overwrite:
        raise ModelFileError(
            f"{folder} holds a model already. Use another folder, replace it (overwrite=True, --overwrite) or resume "
            "it (--resume)."
        )
    if HISTORY in inside:
        FolderLock(folder).release()


def _check_parent(folder: Path) -> None:
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    try:
        tempfile.TemporaryDirectory(dir=parent).cleanup()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ModelFileError(f"{folder} cannot be created in {parent} ({reason}). Use another place.") from None


def check_space(path: str | Path, needed: int) -> None:
    """Raise ModelFileError if the disk of a path has less than ``needed`` bytes left."""
    there = next(parent for parent in (Path(path).absolute(), *Path(path).absolute().parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise ModelFileError(
            f"{there} must have {show_bytes(needed)} free for the layers, got {show_bytes(free)}. Free space, use "
            "another folder or fewer layers."
        )


def read_file(file: Path, entry: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a regular file, or of the regular file that a link points to.

    With ``entry`` it must have their size ``bytes`` and their checksum ``sha256``.
    """
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{file} must be a regular file. {COPY_AGAIN}")
        if entry and status.st_size != entry["bytes"]:
            raise ModelFileError(f"{file} must have {entry['bytes']:,} bytes, got {status.st_size:,}. {COPY_AGAIN}")
        with os.fdopen(os.open(file, os.O_RDONLY | _SAFE), "rb") as stream:
            data = stream.read()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ModelFileError(f"{file} cannot be read ({reason}). {COPY_AGAIN}") from None
    if entry and hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise ModelFileError(f"{file} must have the SHA-256 that was saved, got another. {COPY_AGAIN}")
    return data


def temporary_of(file: Path) -> Path:
    """Return the file beside a file in which it is written; the next run removes one left by a kill."""
    return file.with_name(f".{file.name}.part")


def write_file(file: Path, data: bytes) -> None:
    """Write a file completely or not at all: beside its place, to the disk, then moved there."""
    try:
        with atomic_write(file, temporary_of(file)) as partial:
            partial.unlink(missing_ok=True)  # left by a kill, or a link
            with partial.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        _sync_folder(file.parent)
    except OSError as error:
        raise WriteError(file, error) from None


def append_line(file: Path, line: bytes) -> None:
    """Append a line to a file and wait until it is on the disk."""
    try:
        with os.fdopen(_open_own(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as stream:
            stream.write(line + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise WriteError(file, error) from None


def truncate_file(file: Path, size: int) -> None:
    """Cut a file to ``size`` bytes; create it if it is missing."""
    with os.fdopen(_open_own(file, os.O_RDWR | os.O_CREAT), "r+b", buffering=0) as stream:
        stream.truncate(size)
        os.fsync(stream.fileno())


def make_layers_folder(folder: Path) -> None:
    """Create the folder of the layers' files; a link is refused, because nothing is written through links."""
    layers = folder / LAYERS
    if layers.is_symlink():
        raise ModelFileError(f"{layers} must be a folder, got a symbolic link. Replace it by the folder itself.")
    layers.mkdir(parents=True, exist_ok=True)


def replace_folder(new: Path, place: Path) -> None:
    """Move a model to its place; the model that is there is deleted afterwards, and put back if that fails."""
    if not place.exists():
        new.rename(place)
        return
    new.chmod(place.stat().st_mode & 0o777)
    away = Path(tempfile.mkdtemp(prefix=f".{place.name}.old-", dir=place.parent))
    try:
        place.rename(away / "model")
        new.rename(place)
    except BaseException:
        if not place.exists():
            (away / "model").rename(place)
        away.rmdir()
        raise
    shutil.rmtree(away)


def _open_own(file: Path, flags: int) -> int:
    """Open a regular file of a run for writing, and no link."""
    try:
        if file.is_symlink() or (file.exists() and not file.is_file()):
            raise OSError(errno.ELOOP, "not a regular file")
        return os.open(file, flags | _NO_LINK | _SAFE, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ModelFileError(f"{file} must be a regular file, not a link or a device. Replace it by a file.") from None


def _sync_folder(folder: Path) -> None:
    """Wait until the folder's new entry is on the disk, where the system supports it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
