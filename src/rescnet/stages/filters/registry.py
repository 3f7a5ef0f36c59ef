"""Filter banks by name, and mixtures of them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...config.banks import KNOWN, check_bank, parse_mixture, share_out
from .bank import BankOptions, FilterBank, Filters, PatchSource

_BANKS: dict[str, FilterBank] = {}


def register_bank(name: str) -> Callable[[FilterBank], FilterBank]:
    """Register a bank under a name, for the option ``bank`` and its mixtures.

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
    """Return the registered names, sorted."""
    return sorted(_BANKS)


def find_bank(name: str) -> FilterBank:
    """Return the bank of that name."""
    check_bank(name)
    return _BANKS[name]


def learn_filters(
    mixture: str, source: PatchSource, count: int, generator: torch.Generator, options: BankOptions
) -> Filters:
    """Learn ``count`` filters from patches, by one bank or by a mixture of banks in its order.

    The paper mixes "50 % of the supervised stacked-LDA filters with 50 % of the unsupervised PCA filters".
    """
    parts = parse_mixture(mixture)
    learned = [
        find_bank(name)(source, share, generator, options)
        for share, (_, name) in zip(share_out(count, [weight for weight, _ in parts]), parts, strict=True)
        if share > 0
    ]
    device = learned[0].weights.device
    return Filters(
        torch.cat([filters.weights.to(device) for filters in learned]),
        torch.cat([filters.bias.to(device) for filters in learned]),
    )
