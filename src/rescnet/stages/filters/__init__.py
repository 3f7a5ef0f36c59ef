"""Stage 3: filter banks, each one file and one registered function (section 2.3.1, appendix A.3)."""

from .bank import (
    BankOptions,
    Bias,
    DrawSides,
    FilterBank,
    FilterLength,
    Filters,
    NotEnoughFiltersError,
    PatchSource,
    PCABias,
    PCASigns,
)
from .grey import GreyPatches
from .mixture import bank_of_layer, check_banks, check_components, learn_filters, parse_mixture
from .registry import bank_names, find_bank, register_bank

__all__ = [
    "BankOptions",
    "Bias",
    "DrawSides",
    "FilterBank",
    "FilterLength",
    "Filters",
    "GreyPatches",
    "NotEnoughFiltersError",
    "PCABias",
    "PCASigns",
    "PatchSource",
    "bank_names",
    "bank_of_layer",
    "check_banks",
    "check_components",
    "find_bank",
    "learn_filters",
    "parse_mixture",
    "register_bank",
]
