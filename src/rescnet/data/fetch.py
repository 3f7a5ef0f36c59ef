"""A public set on disk: found in any of its layouts, or downloaded and unpacked into the first of them."""

from __future__ import annotations

import os
from pathlib import Path

from .archives import Layout, PublicSet, RemoteFile
from .download import Progress, download, md5_of
from .errors import DataError
from .unpack import unpack


def default_root() -> Path:
    """Where data sets live unless told otherwise: the folder ``$RESCNET_DATA`` names, else ``~/datasets``."""
    return Path(os.environ.get("RESCNET_DATA") or "~/datasets").expanduser()


def find(public_set: PublicSet, root: Path) -> Layout | None:
    """Return the first layout of which every file is under `root`, or None. Reads and fetches nothing."""
    return next((layout for layout in public_set.layouts if not layout.missing(root)), None)


def obtain(public_set: PublicSet, root: Path, allow_download: bool = True, progress: Progress | None = None) -> Layout:
    """Find a set under `root`, or bring it there.

    Files already laid out are taken as they are, without a checksum. An archive lying in `root` is verified
    and unpacked without any connection. Processes that share `root` should let one of them come here first.

    Parameters
    ----------
    public_set : PublicSet
    root : Path
    allow_download : bool, default True
        False never opens a connection.
    progress : callable, optional
        Called with (bytes done, bytes in all), counted over all the files that are fetched.

    Returns
    -------
    Layout
        The complete layout to read.
    """
    if (found := find(public_set, root)) is not None:
        return found
    layout = public_set.layouts[0]
    _refuse_incomplete_folder(public_set, root)
    wanted = [remote for remote in public_set.downloads if not _is_there(remote, layout, root)]
    fetched = _download_all(public_set, wanted, root, allow_download, progress)
    for remote in public_set.downloads:
        if remote.unpacks_to is not None:
            archive = root / remote.target
            if remote not in fetched:
                _verify(archive, remote)
            unpack(archive, root / remote.unpacks_to)
            if remote in fetched:  # one that was put there by hand is not ours to remove
                archive.unlink()
    if missing := layout.missing(root):
        raise DataError(f"{public_set.name} was fetched but {root / layout.folder} still lacks {missing[0]}.")
    return layout


def _is_there(remote: RemoteFile, layout: Layout, root: Path) -> bool:
    """Whether `remote`, or the unpacked file it would become, is under `root`."""
    target = root / remote.target
    return target.exists() or (layout.format == "idx" and target.with_suffix("").exists())


def _refuse_incomplete_folder(public_set: PublicSet, root: Path) -> None:
    """Refuse, before anything is downloaded, to unpack an archive over a folder that is there in part."""
    for remote in public_set.downloads:
        if remote.unpacks_to is not None and (root / remote.unpacks_to).exists():
            missing = ", ".join(public_set.layouts[0].missing(root))
            raise DataError(
                f"{root / remote.unpacks_to} lacks {missing}: complete the folder, or remove it to have "
                f"{public_set.name} fetched again."
            )


def _download_all(
    public_set: PublicSet, wanted: list[RemoteFile], root: Path, allowed: bool, progress: Progress | None
) -> list[RemoteFile]:
    """Download `wanted`, with one count of bytes over all of them."""
    if wanted and not allowed:
        names = ", ".join(Path(remote.target).name for remote in wanted)
        raise DataError(
            f"{public_set.name} is not in {root} and downloading is off: put {names} in "
            f"{(root / wanted[0].target).parent}, or allow the download."
        )
    total = sum(remote.size for remote in wanted)
    before = 0
    for number, remote in enumerate(wanted):
        try:
            download(remote, root, _shifted(progress, before, total))
        except DataError as error:
            others = ", ".join(Path(later.target).name for later in wanted[number + 1 :])
            if not others:
                raise
            raise DataError(f"{str(error).rstrip('.')}; {others} will be wanted too.") from error
        before += remote.size
    return wanted


def _shifted(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Turn one file's count into the count over all files: `before` bytes more, of `total`."""
    if progress is None:
        return None
    return lambda done, _: progress(before + done, total)


def _verify(archive: Path, remote: RemoteFile) -> None:
    found = md5_of(archive)
    if found != remote.md5:
        raise DataError(
            f"{archive} has MD5 {found}, not the published {remote.md5}: remove it and get it again from {remote.url}."
        )
