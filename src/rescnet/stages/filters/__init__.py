"""Stage 3: filter banks, one file and one registered function each (section 2.3.1, appendix A.3)."""

from . import cca, dcc, dct, ica, lda, orthogonal_subspace, patches, pca, random, stacked_lda  # noqa: F401  (register)
from .bank import BankOptions, FilterBank, Filters, PatchSource
from .grey import GreyPatches
from .registry import bank_names, find_bank, learn_filters, register_bank

__all__ = [
    "BankOptions",
    "FilterBank",
    "Filters",
    "GreyPatches",
    "PatchSource",
    "bank_names",
    "find_bank",
    "learn_filters",
    "register_bank",
]
