"""One writer a folder: whoever writes holds a lock on its history, which the system lets go when the process ends."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import ModelFileError
from .layout import HISTORY

try:
    import fcntl
except ImportError:  # not a Unix: there, two writers are not told apart
    fcntl = None  # type: ignore[assignment]


class FolderLock:
    """A run's folder, locked for this process; refused if another one writes there."""

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        if fcntl is None:
            return
        descriptor = os.open(folder / HISTORY, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ModelFileError(
                f"{folder} is being written to by another process: wait for it, or choose another place."
            ) from None
        except OSError:  # a file system without locks
            os.close(descriptor)
            return
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others write."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.release()
