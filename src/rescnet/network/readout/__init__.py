"""Readouts: corrections of the outputs that are fitted after all layers."""

from typing import TypeAlias

from .exact import ExactReadout, fit_exact
from .kernel import Encoder, KernelReadout, Quantised, sketches_in_chunks, views_of
from .loo_correction import LeaveOneOutCorrection

Readout: TypeAlias = KernelReadout | ExactReadout

__all__ = [
    "Encoder",
    "ExactReadout",
    "KernelReadout",
    "LeaveOneOutCorrection",
    "Quantised",
    "Readout",
    "fit_exact",
    "sketches_in_chunks",
    "views_of",
]
