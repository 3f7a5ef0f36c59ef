"""Stage 3: filter banks, one registered function each (section 2.3.1, appendix A.3)."""

from . import class_sums, stacked_lda, unsupervised  # noqa: F401  (register)
from .bank import BankOptions, Filters, PatchSource, find_bank, layer_generator, learn_filters, register_bank
from .grey import GreyPatches

__all__ = [
    "BankOptions",
    "Filters",
    "GreyPatches",
    "PatchSource",
    "find_bank",
    "layer_generator",
    "learn_filters",
    "register_bank",
]
