"""Mixtures of banks: "50 % of the supervised stacked-LDA filters with 50 % of the unsupervised PCA filters"."""

from __future__ import annotations

import torch

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
    rotated_pca,
    stacked_lda,
)
from .bank import BankOptions, Filters, NotEnoughFiltersError, PatchSource
from .registry import find_bank

DIRECTIONS = {  # banks whose filters are directions of patch space, no two the same
    "pca": "PCA", "rotated-pca": "rotated PCA", "canonical": "canonical", "dct": "DCT", "ica": "ICA", "lda": "LDA",
}  # fmt: skip


def parse_mixture(mixture: str) -> list[tuple[float, str]]:
    """Read a mixture: bank names joined by ``+``, each with a weight before it if they are not equal.

    Examples
    --------
    >>> parse_mixture("pca + stacked-lda")
    [(0.5, 'pca'), (0.5, 'stacked-lda')]
    >>> parse_mixture("3 pca + 1 stacked-lda")
    [(0.75, 'pca'), (0.25, 'stacked-lda')]
    """
    parts = []
    for term in mixture.split("+"):
        words = term.split()
        try:
            weight = float(words[0]) if len(words) == 2 else 1.0
        except ValueError:
            weight = -1.0
        if len(words) not in (1, 2) or not 0 < weight < float("inf"):
            raise ValueError(
                f"the filter bank {mixture!r} cannot be read: write it as 'pca' or '3 pca + 1 stacked-lda'."
            )
        find_bank(words[-1])
        parts.append((weight, words[-1]))
    total = sum(weight for weight, _ in parts)
    return [(weight / total, name) for weight, name in parts]


def bank_of_layer(banks: str, layer: int, stack: int = 1) -> str:
    """Return the mixture of a layer of a stack, both counted from 1.

    Mixtures are parted by ``;``, and the last one goes on; stacks, each with its mixtures, by ``|``, likewise.

    Examples
    --------
    >>> [bank_of_layer("dct; 3 pca + 1 ica", layer) for layer in (1, 2, 9)]
    ['dct', '3 pca + 1 ica', '3 pca + 1 ica']
    >>> [bank_of_layer("dct; pca | patches", layer, stack) for stack in (1, 2, 3) for layer in (1, 2)]
    ['dct', 'pca', 'patches', 'patches', 'patches', 'patches']
    """
    stacks = banks.split("|")
    mixtures = [mixture.strip() for mixture in stacks[min(stack, len(stacks)) - 1].split(";")]
    return mixtures[min(layer, len(mixtures)) - 1]


def check_banks(banks: str) -> None:
    """Refuse, in one sentence, what cannot be read as a mixture, or as several parted by ``;`` and ``|``."""
    for mixture in banks.replace("|", ";").split(";"):
        parse_mixture(mixture)


def check_components(mixture: str, count: int, numbers: int, size: str) -> None:
    """Refuse a mixture that asks patches of so many numbers for more directions than that; ``size`` is their option."""
    parts = parse_mixture(mixture)
    for share, (_, name) in zip(share_out(count, [weight for weight, _ in parts]), parts, strict=True):
        most = numbers - 1 if name == "dct" else numbers  # which has no constant
        if name in DIRECTIONS and share > most:
            raise NotEnoughFiltersError(
                f"{share} {DIRECTIONS[name]} filters were asked of patches with {numbers} numbers: ask for at most "
                f"{most}, or take larger filters ({size})."
            )


def share_out(count: int, weights: list[float]) -> list[int]:
    """Divide ``count`` filters by weight, largest remainders first, so that they add up."""
    exact = [count * weight for weight in weights]
    whole = [int(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda index: whole[index] - exact[index])
    for index in by_remainder[: count - sum(whole)]:
        whole[index] += 1
    return whole


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
