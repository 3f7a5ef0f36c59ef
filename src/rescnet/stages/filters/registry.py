"""Registry of filter banks."""

from __future__ import annotations

from collections.abc import Callable

from ...config.banks import KNOWN, check_bank
from .bank import FilterBank

_BANKS: dict[str, FilterBank] = {}


def register_bank(name: str) -> Callable[[FilterBank], FilterBank]:
    """Register a bank under a name, so that ``bank = "name"`` and mixtures find it.

    Examples
    --------
    >>> import torch
    >>> from rescnet.stages.filters import Filters, register_bank
    >>> @register_bank("gaussian")
    ... def gaussian_filters(source, count, generator, options):
    ...     dimension = source.channels * source.size**2
    ...     weights = torch.randn(count, dimension, generator=generator, dtype=torch.float64)
    ...     return Filters(weights, torch.zeros(count, dtype=torch.float64)).unit_norm()
    """

    def add(bank: FilterBank) -> FilterBank:
        KNOWN.add(name)
        _BANKS[name] = bank
        return bank

    return add


def bank_names() -> list[str]:
    """Return the registered names."""
    return sorted(_BANKS)


def find_bank(name: str) -> FilterBank:
    """Return the bank of that name."""
    check_bank(name)
    return _BANKS[name]
