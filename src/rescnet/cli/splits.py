"""Checks of the training images, and the record of which were held out, so that ``evaluate`` finds them again."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import Dataset
from ..data.splits import fingerprint


def check_classes(dataset: Dataset) -> None:
    """Refuse a set of a single class, and one in which a class has a single training image."""
    if len(dataset.class_names) < 2:
        raise ValueError(
            f"{dataset.name} has one class only, {dataset.class_names[0]!r}: give images of at least two, in a folder "
            "a sub-folder for each."
        )
    counts = np.bincount(dataset.train.labels, minlength=len(dataset.class_names))
    if single := np.flatnonzero(counts == 1).tolist():
        others, has = (f" and {len(single) - 1} more", "have") if len(single) > 1 else ("", "has")
        raise ValueError(
            f"{dataset.name}: the class {dataset.class_names[single[0]]!r}{others} {has} one training image only: give "
            "each class two or more, or leave it out."
        )


def check_limit(dataset: Dataset, limit: int | None) -> None:
    """Refuse a limit that leaves no two training images of each class; models made with one are still known by it."""
    classes = len(np.unique(dataset.train.labels))
    if limit is not None and limit < min(2 * classes, len(dataset.train)):
        raise ValueError(f"limit is {limit}, but there are {classes} classes: choose {2 * classes} or more.")


def describe_held_out(dataset: Dataset, fraction: float, limit: int | None, seed: int) -> dict[str, Any]:
    """Return the arguments of ``hold_out_images`` and a fingerprint, so that the same images can be held out again."""
    return {"fraction": fraction, "limit": limit, "seed": seed, "sha256": fingerprint(dataset.validation)}
