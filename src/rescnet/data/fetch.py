"""Public data sets on disk: found in any known layout, or downloaded, verified and unpacked."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from .archives import Layout, PublicSet, RemoteFile
from .image_set import DataError

Progress = Callable[[int, int], None]  # called with the bytes received and the total bytes

_CHUNK_BYTES = 1 << 18
_TIMEOUT_SECONDS = 30.0
_RANGE_NOT_SATISFIABLE = 416
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
    _refuse_incomplete_folder(public_set, root)
    missing = [remote for remote in public_set.downloads if not _is_present(remote, layout, root)]
    _download_all(public_set, missing, root, allow_download, progress)
    for remote in public_set.downloads:
        if remote.unpacks_to is not None:
            archive = root / remote.target
            if remote not in missing and (found := md5_of(archive)) != remote.md5:
                raise DataError(
                    f"{archive} must have the published MD5 {remote.md5}, got {found}. "
                    f"Remove it and download it again from {remote.url}."
                )
            unpack(archive, root / remote.unpacks_to)
            if remote in missing:  # an archive the user put there is kept
                archive.unlink()
    if lacking := layout.missing(root):
        raise DataError(f"{public_set.name} was downloaded but {root / layout.folder} lacks {lacking[0]}.")
    return layout


def _is_present(remote: RemoteFile, layout: Layout, root: Path) -> bool:
    """Return whether `remote`, or its decompressed file, is under `root`."""
    target = root / remote.target
    return target.exists() or (layout.format == "idx" and target.with_suffix("").exists())


def _refuse_incomplete_folder(public_set: PublicSet, root: Path) -> None:
    """Refuse to unpack over an incomplete folder, before anything is downloaded."""
    for remote in public_set.downloads:
        if remote.unpacks_to is not None and (root / remote.unpacks_to).exists():
            missing = ", ".join(public_set.layouts[0].missing(root))
            raise DataError(
                f"{root / remote.unpacks_to} lacks {missing}. Complete the folder, or remove it to download "
                f"{public_set.name} again."
            )


def md5_of(path: Path) -> str:
    """Return the MD5 of a file in hexadecimal. Authors publish MD5; it detects damage, not malice."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


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
    total = sum(remote.size or 0 for remote in remotes)
    for number, remote in enumerate(remotes):
        before = sum(earlier.size or 0 for earlier in remotes[:number])
        try:
            download(remote, root, progress and _shifted(progress, before, total))
        except DataError as error:
            others = ", ".join(Path(later.target).name for later in remotes[number + 1 :])
            if not others:
                raise
            raise DataError(f"{error} Also needed: {others}.") from error


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    """Turn the byte count of one file into that of all files: add `before`, report `total` if it is known."""
    return lambda done, size: progress(before + done, max(total, before + size))


def download(remote: RemoteFile, root: Path, progress: Progress | None = None) -> Path:
    """Download one file under `root`, resuming an interrupted download.

    Received bytes are kept in ``<target>.part``; a later call requests only the rest, if the size is known.
    The file is renamed to its target, atomically, once its MD5 is the published one. `progress` is called with (bytes
    received, total bytes).
    DataError says if the server cannot be reached, closes the connection early, or sends another file.
    """
    target = root / remote.target
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    if part.exists() and (remote.size is None or part.stat().st_size > remote.size):
        part.unlink()
    received = part.stat().st_size if part.exists() else 0
    if remote.size is None or received < remote.size:
        logger.info("downloading %s to %s from byte %d", remote.url, target, received)
        with _open(remote, target, part, received) as response:
            _receive(response, remote, part, received, progress)
    found = md5_of(part)
    if found != remote.md5:
        part.unlink()
        raise DataError(
            f"{remote.url} must have the published MD5 {remote.md5}, got {found}. The download was removed; try again."
        )
    part.replace(target)
    return target


def _open(remote: RemoteFile, target: Path, part: Path, start: int) -> HTTPResponse:
    """Request `remote` from byte `start` on."""
    headers = {"User-Agent": "rescnet"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response: HTTPResponse = urlopen(Request(remote.url, headers=headers), timeout=_TIMEOUT_SECONDS)
    except (URLError, OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()
            if error.code == _RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)
        reason = error.reason if isinstance(error, URLError) else error
        raise DataError(
            f"{remote.url} cannot be downloaded ({reason}). Get {target.name} by other means, "
            f"put it in {target.parent} and try again."
        ) from error
    return response


def _receive(response: HTTPResponse, remote: RemoteFile, part: Path, start: int, progress: Progress | None) -> None:
    """Append the response to `part` if the server honoured the range, else write `part` from the start."""
    size = remote.size if remote.size is not None else int(response.headers.get("Content-Length") or 0)
    resumed = start > 0 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
    done = start if resumed else 0
    with part.open("ab" if resumed else "wb") as file:
        if progress is not None:
            progress(done, size)
        while chunk := _next_chunk(response, remote, done, size):
            done += len(chunk)
            if remote.size is not None and done > size:
                break
            file.write(chunk)
            if progress is not None:
                progress(done, size)
    if remote.size is not None and done > size:
        part.unlink()
        raise DataError(
            f"{remote.url} must have the published {size:,} bytes, got more. "
            "The download was removed; check for a proxy or a login page."
        )
    if done < size:
        raise _interrupted(remote, done, size)


def _next_chunk(response: HTTPResponse, remote: RemoteFile, done: int, size: int) -> bytes:
    try:
        return response.read(_CHUNK_BYTES)
    except (OSError, HTTPException) as error:
        raise _interrupted(remote, done, size) from error


def _interrupted(remote: RemoteFile, done: int, size: int) -> DataError:
    return DataError(f"{remote.url} stopped after {done:,} of {size:,} bytes. Try again to download the rest.")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the top-level folder of `archive` that has the name of `folder`, as `folder`.

    The archive is unpacked in a temporary folder next to `folder`, and the result is renamed. So `folder` is either
    complete or absent. The archive is a ``.zip`` file, or a tar file with any compression. DataError says if it is
    damaged, has a link or a member outside its folder, or lacks that folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f".{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True
    ) as scratch:
        try:
            _extract(archive, Path(scratch))
        except Exception as error:  # damaged archives raise nearly anything
            if isinstance(error, DataError) or getattr(error, "errno", None) in _OF_THE_MACHINE:
                raise
            reason = " ".join(str(error).split()).replace(scratch, "")
            raise DataError(f"{archive} cannot be unpacked ({reason}). Remove it and download it again.") from error
        unpacked = Path(scratch, folder.name)
        if not unpacked.is_dir():
            raise DataError(f"{archive} has no folder {folder.name}. It is not the expected archive.")
        unpacked.rename(folder)


def _extract(archive: Path, scratch: Path) -> None:
    """Extract files and folders. Links are refused: no data set needs them, and they can lead elsewhere."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            _refuse_escapes(archive, packed.namelist())
            packed.extractall(scratch)
        return
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
        _refuse_escapes(archive, [member.name for member in members])
        for member in members:
            if not (member.isfile() or member.isdir()):
                raise tarfile.TarError(f"{member.name} is neither a file nor a folder")
        if hasattr(tarfile, "data_filter"):
            tar.extractall(scratch, filter="data")
            return
        for member in members:  # Python before 3.11.4: plain permissions, and this user's files
            member.mode, member.uid, member.gid = 0o755 if member.isdir() else 0o644, os.getuid(), os.getgid()
            member.uname = member.gname = ""
        tar.extractall(scratch, members)


def _refuse_escapes(archive: Path, names: list[str]) -> None:
    """Refuse absolute names and names with ``..``, by the rules of both POSIX and Windows."""
    for name in names:
        for path in (PurePosixPath(name), PureWindowsPath(name)):
            if path.anchor or ".." in path.parts:
                raise DataError(f"{archive} has the member {name!r}, which lies outside its folder. Do not use it.")
