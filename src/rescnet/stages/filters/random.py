"""Random filters (RandNet: Chan et al. 2015), a baseline that learns nothing."""

from __future__ import annotations

import torch

from .bank import BankOptions, Filters, PatchSource
from .registry import register_bank


@register_bank("random")
def random_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return ``count`` Gaussian filters of unit norm, without bias."""
    weights = torch.randn(count, source.channels * source.size**2, generator=generator, dtype=torch.float64)
    return Filters(weights, torch.zeros(count, dtype=torch.float64)).unit_norm()
