"""The exceptions of ``rescnet.model_files``."""

from __future__ import annotations

from pathlib import Path


class ModelFileError(ValueError):
    """A model that cannot be read, or must not be written over.

    The message is one sentence for the person reading it: which file, what is wrong with it, and what to do.
    """


class WriteError(OSError):
    """A file could not be written to its end, as on a full disk; the message names it and what to do."""

    def __init__(self, file: Path, error: OSError) -> None:
        super().__init__(error.errno, error.strerror or str(error), str(file))

    def __str__(self) -> str:
        reason = str(self.strerror).lower()
        return f"{self.filename} cannot be written ({reason}): make room there, or raise the limit, and try again."
