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
    if not hasattr(tarfile, "data_filter"):
        raise DataError(f"{archive} needs Python 3.11.4 or newer to be unpacked safely: unpack it by hand.")
    with tarfile.open(archive) as tar:
        _refuse_escapes(archive, tar.getnames())
        # The filter also refuses what names do not show: links that point outside, devices, set-uid bits.
        tar.extractall(scratch, filter="data")


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
