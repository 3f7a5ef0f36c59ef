"""What came of a kernel readout."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadoutRecord:
    """How often the network is right with its readout, as a share of 1; None where there are no such images.

    ``ridge`` is the ε used, ``seconds`` are those of fitting it and of predicting such images, ``layers`` are those it
    reads; None: all, as of records from before a readout could be of fewer.
    """

    validation_accuracy: float | None = None
    test_accuracy: float | None = None
    ridge: float | None = None
    seconds: float = 0.0
    layers: int | None = None
