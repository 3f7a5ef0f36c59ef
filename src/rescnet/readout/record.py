"""What came of a kernel readout."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadoutRecord:
    """How often the whole network is right with its readout, as a share of 1; None where there are no such images.

    ``ridge`` is the ε used, ``seconds`` are those of fitting it and of predicting such images.
    """

    validation_accuracy: float | None = None
    test_accuracy: float | None = None
    ridge: float | None = None
    seconds: float = 0.0
