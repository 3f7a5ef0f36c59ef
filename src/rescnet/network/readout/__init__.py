"""Readouts: corrections of the outputs that are fitted after all layers."""

from .kernel import KernelReadout, fit_kernel, views_of
from .loo_correction import LeaveOneOutCorrection

__all__ = ["KernelReadout", "LeaveOneOutCorrection", "fit_kernel", "views_of"]
