"""Values of the options that are choices."""

from __future__ import annotations

from typing import Literal

Scope = Literal["global", "source", "channel"]
Rectifier = Literal["relu", "both"]
Bins = Literal["official", "adaptive"]
Reduction = Literal["max", "mean"]
ZScore = Literal["channel", "block"]  # "block" is PCANet-II's

PCABias = Literal["none", "mean"]
PCASigns = Literal["fixed", "drawn"]
StackedLDABias = Literal["lda", "mean"]
StackedLDASigns = Literal["one", "both"]

Head = Literal["lda", "multiclass-lda", "ridge"]
Posterior = Literal["sigmoid", "normalised-sigmoid", "softmax"]
Readout = Literal["heads", "kernel"]

DType = Literal["float32", "float64"]
Precision = Literal["auto", "exact", "balanced", "fast"]
Place = Literal["device", "host", "file"]
