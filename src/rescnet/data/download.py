"""One file over HTTP: resumed where it stopped, verified, and only then given its name."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from .archives import RemoteFile
from .errors import DataError

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all."""

_CHUNK = 1 << 18
_TIMEOUT_SECONDS = 30.0
_RANGE_NOT_SATISFIABLE = 416

logger = logging.getLogger(__name__)


def download(remote: RemoteFile, root: Path, progress: Progress | None = None) -> Path:
    """Download one file under `root`.

    What has arrived is kept in ``<target>.part``: a later call asks only for the rest. The file gets its
    name, in one atomic step, once its MD5 is the published one.

    Parameters
    ----------
    remote : RemoteFile
        What to download and where to put it.
    root : Path
        The folder `remote.target` is relative to; made if need be.
    progress : callable, optional
        Called with (bytes done, bytes in all) as the file arrives.

    Returns
    -------
    Path
        The finished file.

    Raises
    ------
    DataError
        If the server cannot be reached, breaks off, or sends something other than the published file.
    """
    target = root / remote.target
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    if part.exists() and part.stat().st_size > remote.size:
        part.unlink()
    have = part.stat().st_size if part.exists() else 0
    if have < remote.size:
        logger.info("downloading %s to %s from byte %d", remote.url, target, have)
        with _open(remote, target, part, have) as response:
            _receive(response, remote, part, have, progress)
    found = md5_of(part)
    if found != remote.md5:
        part.unlink()
        raise DataError(
            f"{remote.url} was downloaded whole but its MD5 is {found}, not the published {remote.md5}: "
            "the download was removed, so run this again."
        )
    part.replace(target)
    return target


def md5_of(path: Path) -> str:
    """MD5 of a file, in hexadecimal: what the authors publish; it guards against damage, not malice."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _open(remote: RemoteFile, target: Path, part: Path, have: int) -> HTTPResponse:
    """Ask for `remote` from byte `have` on."""
    headers = {"User-Agent": "rescnet"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        response: HTTPResponse = urlopen(Request(remote.url, headers=headers), timeout=_TIMEOUT_SECONDS)
    except (URLError, OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()
            if error.code == _RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)
        reason = error.reason if isinstance(error, URLError) else error
        raise DataError(
            f"{remote.url} cannot be downloaded ({reason}): get {target.name} from there by other means, "
            f"put it in {target.parent} and run this again."
        ) from error
    return response


def _receive(response: HTTPResponse, remote: RemoteFile, part: Path, have: int, progress: Progress | None) -> None:
    """Write the body to `part`: after what is there if the server honoured the range, else from the start."""
    resumed = have > 0 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    done = have if resumed else 0
    with part.open("ab" if resumed else "wb") as file:
        if progress is not None:
            progress(done, remote.size)
        while chunk := _next_chunk(response, remote, done):
            done += len(chunk)
            if done > remote.size:
                break
            file.write(chunk)
            if progress is not None:
                progress(done, remote.size)
    if done > remote.size:
        part.unlink()
        raise DataError(
            f"{remote.url} sends more than the {remote.size:,} bytes published, so it is another file: "
            "the download was removed; is a proxy or login page in between?"
        )
    if done < remote.size:
        raise _broken_off(remote, done)


def _next_chunk(response: HTTPResponse, remote: RemoteFile, done: int) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, HTTPException) as error:
        raise _broken_off(remote, done) from error


def _broken_off(remote: RemoteFile, done: int) -> DataError:
    return DataError(
        f"{remote.url} broke off after {done:,} of {remote.size:,} bytes: run this again to fetch the rest."
    )
