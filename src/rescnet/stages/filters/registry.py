"""Names for filter banks."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

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
        _BANKS[name] = bank
        return bank

    return add


def bank_names() -> list[str]:
    """Return the registered names."""
    return sorted(_BANKS)


def find_bank(name: str) -> FilterBank:
    """Return the bank of that name; an unknown name is an error that tells the nearest one."""
    if name not in _BANKS:
        near = get_close_matches(name, _BANKS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(bank_names())}."
        raise ValueError(f"there is no filter bank {name!r}: {hint}")
    return _BANKS[name]
