"""Files: opened for reading, checked before they are written, and written atomically."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from uuid import uuid4

from .errors import ConfigError, DataError

_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; a pipe or a device is refused, since opening or reading it can wait forever."""
    descriptor = os.open(path, os.O_RDONLY | _NO_WAIT)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    kind = "folder" if stat.S_ISDIR(mode) else "pipe or a device"
    raise DataError(f"{path} must be a regular file, got a {kind}. Replace or remove it.")


def check_new_file(path: Path, overwrite: bool, *endings: str, how: str = "overwrite=True") -> None:
    """Raise ValueError if a file cannot or must not be written there; ``how`` is the way to replace one."""
    if endings and path.suffix.lower() not in endings:
        known = " or ".join(", ".join(endings).rsplit(", ", 1))
        raise ConfigError(f"path must end in {known}, got {path}.")
    if path.is_dir():
        raise ConfigError(f"path must be a file, got the folder {path}. Name a file in it.")
    if not path.parent.is_dir():
        raise ConfigError(f"path must be in an existing folder, got {path}. Create the folder {path.parent}.")
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(f"path must be in a writable folder, got {path}. Use another place.")
    if path.exists() and not overwrite:
        raise ConfigError(f"path must be a new file, got {path}. Use another name, or {how}.")


@contextmanager
def atomic_write(path: Path, beside: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and rename the file there to ``path`` if no error occurs.

    Readers of ``path`` see the old file or the complete new one, and an error leaves the old file as it was. Each
    writer has a temporary file of its own, unless ``beside`` names it.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with atomic_write(target) as path:
    ...     _ = path.write_text("complete")
    >>> target.read_text(), [file.name for file in target.parent.iterdir()]
    ('complete', ['a.txt'])
    """
    beside = beside or path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
