"""Public data sets on disk: found in any known layout, or downloaded, verified and unpacked."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from http.client import HTTPException
from io import BufferedReader
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ..base.errors import DataError
from ..base.files import atomic_write, open_regular
from .archives import Layout, PublicSet, RemoteFile

Progress = Callable[[int, int], None]  # called with the bytes received and the total bytes

LARGEST = 20 * 2**30  # bytes of a download of unknown size: no set has a quarter of it
TRIES, PAUSE = 3, 2.0  # connections, and the seconds before another one
_CHUNK_BYTES = 1 << 18
_TIMEOUT_SECONDS = 30.0
_OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO}

logger = logging.getLogger(__name__)


def default_root() -> Path:
    """Return the default folder of public data sets: ``$RESCNET_DATA`` if set, else ``~/datasets``."""
    return Path(os.environ.get("RESCNET_DATA") or "~/datasets").expanduser()


def find_layout(public_set: PublicSet, root: Path) -> Layout | None:
    """Return the first layout with all its files under `root`, or None. Reads and downloads nothing."""
    return next((layout for layout in public_set.layouts if not layout.missing(root)), None)


def fetch(public_set: PublicSet, root: Path, allow_download: bool = True, progress: Progress | None = None) -> Layout:
    """Find a data set under `root`, or download it there.

    Files found in a known layout are used without a checksum. An archive found in `root` is verified and unpacked
    without a connection. If several processes share `root`, one of them should call this first. `progress` is called
    with (bytes received, total bytes), summed over all files to download.
    """
    if (known := find_layout(public_set, root)) is not None:
        return known
    layout = public_set.layouts[0]
    archives = [remote for remote in public_set.downloads if remote.is_archive]
    if archives and (root / layout.folder).exists():
        raise DataError(
            f"{root / layout.folder} lacks {', '.join(layout.missing(root))}. Complete the folder, or remove it to "
            f"download {public_set.name} again."
        )
    missing = [remote for remote in public_set.downloads if not _is_present(remote, layout, root)]
    _download_all(public_set, missing, root, allow_download, progress)
    for remote in archives:
        archive = root / remote.target
        with open_regular(archive) as file:
            check_md5(file, archive, remote.md5)
        unpack(archive, root / layout.folder)
        if remote in missing:  # an archive the user put there is kept
            archive.unlink()
    if lacking := layout.missing(root):
        raise DataError(f"{public_set.name} was downloaded but {root / layout.folder} lacks {lacking[0]}.")
    return layout


def _is_present(remote: RemoteFile, layout: Layout, root: Path) -> bool:
    """Return whether `remote`, or its decompressed file, is under `root`."""
    target = root / remote.target
    return target.exists() or (layout.format == "idx" and target.with_suffix("").exists())


def check_md5(file: BufferedReader, name: object, md5: str) -> None:
    """Raise DataError, which has the file's name, unless an open file is the published one; it is at its start then.

    Authors publish MD5. Nobody can make another file with the MD5 of a given one, as far as is known.
    """
    found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        raise DataError(f"{name} must have the published MD5 {md5}, got {found}. Download it again.")
    file.seek(0)


def _download_all(
    public_set: PublicSet, remotes: list[RemoteFile], root: Path, allowed: bool, progress: Progress | None
) -> None:
    """Download files, with one byte count over all of them."""
    if remotes and not allowed:
        names = ", ".join(Path(remote.target).name for remote in remotes)
        raise DataError(
            f"{public_set.name} is not in {root} and downloading is off. Put {names} in "
            f"{(root / remotes[0].target).parent}, or allow the download."
        )
    total, before = sum(remote.size or 0 for remote in remotes), 0
    for remote in remotes:
        download(remote, root, progress and _shifted(progress, before, total))
        before += remote.size or 0


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    """Turn the byte count of one file into that of all files: add `before`, report `total` if it is known."""
    return lambda done, size: progress(before + done, max(total, before + size))


def download(remote: RemoteFile, root: Path, progress: Progress | None = None) -> Path:
    """Download one file under `root`, with three tries if the connection fails.

    It is received in a new file, which is renamed, atomically, once its MD5 is the published one. `progress` is called
    with (bytes received, total bytes). DataError says if the server cannot be reached, closes the connection early, or
    sends another file.
    """
    target = root / remote.target
    target.parent.mkdir(parents=True, exist_ok=True)
    logger.info("downloading %s to %s", remote.url, target)
    for number in range(1, TRIES + 1):
        try:
            with atomic_write(target) as part:
                _receive(remote, part, progress)
            break
        except (OSError, HTTPException) as error:
            if _is_of_the_machine(error):
                raise
            if number == TRIES or isinstance(error, HTTPError):
                reason = getattr(error, "reason", error)
                raise DataError(
                    f"{remote.url} cannot be downloaded ({reason}). Try again, or get {target.name} by other means and "
                    f"put it in {target.parent}."
                ) from error
            time.sleep(PAUSE)
    return target


def _receive(remote: RemoteFile, part: Path, progress: Progress | None) -> None:
    """Download a file to a new path; raise DataError if it is not the published one."""
    request = Request(remote.url, headers={"User-Agent": "rescnet"})
    with urlopen(request, timeout=_TIMEOUT_SECONDS) as response, part.open("xb") as file:
        done, size, most = 0, remote.size or response.length or 0, remote.size or LARGEST
        while chunk := response.read(_CHUNK_BYTES):
            done += len(chunk)
            if done > most:
                raise DataError(
                    f"{remote.url} must have at most {most:,} bytes, got more. Check for a proxy or a login page."
                )
            file.write(chunk)
            if progress is not None:
                progress(done, size)
    if done < size:
        raise ConnectionError(f"the connection ended after {done:,} of {size:,} bytes")
    with open_regular(part) as received:
        check_md5(received, remote.url, remote.md5)


def _is_of_the_machine(error: Exception) -> bool:
    """Return whether an error is that of a disk, e.g. a full one."""
    return getattr(error, "errno", None) in _OF_THE_MACHINE


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the top-level folder of a verified `archive` that has the name of `folder`, as `folder`.

    The archive, ``.zip`` or ``.tar.gz``, is unpacked in a temporary folder next to `folder`, and the result is renamed.
    So `folder` is either complete or absent.
    """
    # Early versions of Python 3.11 have no filter, so only files that are plainly inside the folder are unpacked.
    safe: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f".{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True
    ) as scratch:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(scratch)  # which keeps all members inside
        else:
            with tarfile.open(archive) as tar:
                inside = [member for member in tar if member.isfile() and _is_inside(member.name, folder.name)]
                tar.extractall(scratch, members=inside, **safe)
        Path(scratch, folder.name).rename(folder)


def _is_inside(name: str, folder: str) -> bool:
    """Return whether the name of an archive's member leads into a folder, and not out of it again."""
    parts = Path(name).parts
    return parts[:1] == (folder,) and ".." not in parts
