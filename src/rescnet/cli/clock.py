"""Seconds since the program started, which a time limit counts: to import PyTorch takes some of them."""

from __future__ import annotations

from time import monotonic

_STARTED = monotonic()


def since_start() -> float:
    """Return the seconds since the command line was imported."""
    return monotonic() - _STARTED
