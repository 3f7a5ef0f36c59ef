"""Weights of training images from ``sample_weight`` and ``class_weight``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ConfigError
from ..training.data import as_weights


def image_weights(targets: NDArray[Any], class_weight: Any, sample_weight: Any) -> NDArray[np.float64] | None:
    """Return the weight of each image with these labels (n,), shape (n,); None if all are 1."""
    given = as_weights(sample_weight, len(targets), "sample_weight")
    weights = None if given is None else given.numpy()
    if class_weight is None:
        return weights
    classes, labels = np.unique(targets, return_inverse=True)
    factors = _of_classes(class_weight, classes, np.bincount(labels, weights))[labels]
    return factors if weights is None else factors * weights


def _of_classes(class_weight: Any, classes: NDArray[Any], totals: NDArray[Any]) -> NDArray[np.float64]:
    """Return the weight of each class; ``totals`` (C,) are the weights of their images."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        present = totals > 0
        return np.where(present, totals.sum() / (present.sum() * np.where(present, totals, 1)), 0.0)
    if not isinstance(class_weight, Mapping):
        raise ConfigError(f"class_weight must be 'balanced', a dict by class, or None, got {class_weight!r}.")
    names = classes.tolist()
    if unknown := [name for name in class_weight if name not in names]:
        raise ConfigError(f"class_weight must name classes of y, got {unknown[0]!r}.")
    found = as_weights([class_weight.get(name, 1) for name in names], len(names), "class_weight")
    return np.ones(len(names)) if found is None else found.numpy()
