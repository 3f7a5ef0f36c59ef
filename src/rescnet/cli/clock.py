"""Start of the program, from which a time limit counts: to import PyTorch takes some seconds."""

from __future__ import annotations

from time import monotonic

STARTED = monotonic()
