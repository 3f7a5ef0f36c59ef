"""Readouts: corrections of the outputs that are fitted after all layers."""

from .kernel import Encoder, KernelReadout, Quantised, sketches_in_chunks, views_of
from .loo_correction import LeaveOneOutCorrection

__all__ = [
    "Encoder",
    "KernelReadout",
    "LeaveOneOutCorrection",
    "Quantised",
    "sketches_in_chunks",
    "views_of",
]
