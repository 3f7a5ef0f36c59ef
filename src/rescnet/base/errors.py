"""Errors of the library, which share a base class. A message names the value, the rule it breaks, and the remedy."""

from __future__ import annotations

LONGEST_MESSAGE = 1000  # characters: a forged value can be of any length


def show_text(text: str) -> str:
    r"""Return a text of a stranger, e.g. the name of a file, without the characters that change a terminal.

    Examples
    --------
    >>> print(show_text("cat\x1b[2J\n"))
    cat\x1b[2J\n
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class RescnetError(Exception):
    """Base class of all errors that this library defines."""

    def __init__(self, message: str) -> None:
        message = show_text(" ".join(message[: LONGEST_MESSAGE + 1].split("\n")))
        super().__init__(message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]} …")


class ConfigError(RescnetError, ValueError):
    """An option or an argument with a value that it cannot have."""


class DataError(RescnetError, ValueError):
    """Images or labels that cannot be used: missing, damaged, or of the wrong shape."""


class ModelFileError(RescnetError, ValueError):
    """A model's folder that cannot be read or written."""


class NumericalError(RescnetError, FloatingPointError):
    """A computation with NaN or infinite results, or a system that cannot be solved."""


class TooLittleMemoryError(RescnetError, MemoryError, ValueError):
    """A budget in bytes that is too small for something that needs more."""

    def __init__(self, message: str, needed: int) -> None:
        super().__init__(message)
        self.needed = needed
