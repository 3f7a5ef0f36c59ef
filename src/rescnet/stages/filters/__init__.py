"""Stage 3: filter banks, each one file and one registered function (section 2.3.1, appendix A.3)."""

from .bank import BankOptions, FilterBank, Filters, PatchSource
from .grey import GreyPatches
from .mixture import learn_filters
from .registry import bank_names, find_bank, register_bank

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
