"""Archives, unpacked so that no member leaves the folder and no half-unpacked folder bears the real name."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from .errors import DataError

_UNREADABLE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, gzip.BadGzipFile)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the top-level folder of `archive` that is named like `folder`, as `folder`.

    The archive is unpacked in a temporary folder beside `folder`, which is then renamed: `folder` is there
    whole or not at all.

    Parameters
    ----------
    archive : Path
        A ``.zip``, or a tar file compressed in any way.
    folder : Path
        What to make; must not exist yet.

    Raises
    ------
    DataError
        If the archive is damaged, has a member that would land outside, or lacks that folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        try:
            if archive.suffix == ".zip":
                _unpack_zip(archive, scratch)
            else:
                _unpack_tar(archive, scratch)
        except _UNREADABLE as error:
            raise DataError(f"{archive} cannot be unpacked ({error}): remove it and fetch it again.") from error
        if not (scratch / folder.name).is_dir():
            raise DataError(f"{archive} holds no folder {folder.name}: it is not the archive that was expected.")
        (scratch / folder.name).rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _unpack_tar(archive: Path, scratch: Path) -> None:
    """Write the files and folders of a tar archive; links, devices and the like have no business in a data set.

    Written out rather than left to ``extractall``, whose safe filter Python 3.11 has only from its fourth release on.
    """
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
        _refuse_escapes(archive, (member.name for member in members))
        for member in members:
            place = scratch / member.name
            if member.isdir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            content = tar.extractfile(member) if member.isfile() else None
            if content is None:
                raise tarfile.TarError(f"{member.name} is neither a file nor a folder")
            place.parent.mkdir(parents=True, exist_ok=True)
            with content, place.open("wb") as file:
                shutil.copyfileobj(content, file)


def _unpack_zip(archive: Path, scratch: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        _refuse_escapes(archive, packed.namelist())
        packed.extractall(scratch)


def _refuse_escapes(archive: Path, names: Iterable[str]) -> None:
    """Refuse names that are absolute or climb, read as either kind of system would read them."""
    for name in names:
        for path in (PurePosixPath(name), PureWindowsPath(name)):
            if path.anchor or ".." in path.parts:
                raise DataError(
                    f"{archive} has a member {name!r} that would be written outside its folder: do not use it."
                )
