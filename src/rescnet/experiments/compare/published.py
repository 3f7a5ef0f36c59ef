"""Test accuracies as their papers publish them, in per cent: they stand beside what is measured here."""

from __future__ import annotations

PUBLISHED: dict[str, dict[str, float]] = {
    "pcanet": {"cifar10": 77.14, "cifar100": 51.62, "mnist": 99.34, "tiny-imagenet": 30.0},
    "ldanet": {"cifar10": 78.33, "mnist": 99.38},
    "dfsnet-3": {"cifar10": 81.06},
    "multilayer-pcanet": {"cifar10": 81.72, "cifar100": 57.86, "mnist": 99.40, "tiny-imagenet": 40.87},
    "rescnet": {"cifar10": 87.54, "cifar100": 64.9, "mnist": 99.52, "tiny-imagenet": 44.37},
}


def published_accuracy(model: str, dataset: str) -> float | None:
    """Return the published share of test images that are right, None where there is none at hand."""
    figure = PUBLISHED.get(model, {}).get(dataset)
    return None if figure is None else figure / 100
