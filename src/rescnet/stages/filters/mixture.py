"""Mixtures of banks: "50 % of the supervised stacked-LDA filters with 50 % of the unsupervised PCA filters"."""

from __future__ import annotations

import torch

from ...config.banks import parse_mixture, share_out
from . import (  # noqa: F401  (they register themselves)
    cca,
    dcc,
    dct,
    ica,
    lda,
    orthogonal_subspace,
    patches,
    pca,
    random,
    stacked_lda,
)
from .bank import BankOptions, Filters, PatchSource
from .registry import find_bank


def learn_filters(
    mixture: str, source: PatchSource, count: int, generator: torch.Generator, options: BankOptions
) -> Filters:
    """Learn ``count`` filters from the patches, by a bank or a mixture of banks in the order written."""
    parts = parse_mixture(mixture)
    learnt = [
        find_bank(name)(source, share, generator, options)
        for share, (_, name) in zip(share_out(count, [weight for weight, _ in parts]), parts, strict=True)
        if share > 0
    ]
    device = learnt[0].weights.device
    return Filters(
        torch.cat([filters.weights.to(device) for filters in learnt]),
        torch.cat([filters.bias.to(device) for filters in learnt]),
    )
