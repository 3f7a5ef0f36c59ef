"""Which images a network learns from and which are held out; ``evaluate`` finds the same ones again."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Dataset, ImageSet
from ..data.splits import hold_out


def hold_out_images(dataset: Dataset, fraction: float, limit: int | None, seed: int) -> Dataset:
    """Return a data set whose training images are as asked for.

    Parameters
    ----------
    dataset : Dataset
    fraction : float
        Share of the training images that become validation images, where the set has none of its own; 0: none do.
    limit : int, optional
        Use about so many training images, each class in proportion, at least two a class.
    seed : int
    """
    train = dataset.train
    if limit is not None and limit < len(train):
        train = _chosen(train, _take(train.labels, limit, seed))
    if dataset.validation is not None or fraction == 0:
        return replace(dataset, train=train)
    kept, held = hold_out(train.labels, fraction, seed)
    return replace(dataset, train=_chosen(train, kept), validation=_chosen(train, held))


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
    """Return what :func:`hold_out_images` did, so that the same images can be held out again, and checked."""
    return {"fraction": fraction, "limit": limit, "seed": seed, "sha256": fingerprint(dataset.validation)}


def fingerprint(images: ImageSet | None) -> str | None:
    """Return the SHA-256 of images and labels: other images under the same name are told by it."""
    if images is None:
        return None
    digest = hashlib.sha256(np.ascontiguousarray(images.images).data)
    digest.update(np.ascontiguousarray(images.labels).data)
    return digest.hexdigest()


def fingerprints(dataset: Dataset) -> dict[str, str]:
    """Return the SHA-256 of each split there is: a run goes on with the images it began with, or not at all."""
    splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    return {name: digest for name, images in splits.items() if (digest := fingerprint(images))}


def _take(labels: NDArray[np.int64], limit: int, seed: int) -> NDArray[np.intp]:
    """Return the indices, ascending, of about ``limit`` images, each class in proportion and at least two of it."""
    generator = np.random.default_rng(seed)
    taken = []
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        taken.append(members[: max(2, round(limit / len(labels) * len(members)))])
    return np.sort(np.concatenate(taken))


def _chosen(images: ImageSet, indices: NDArray[Any]) -> ImageSet:
    return replace(images, images=images.images[indices], labels=images.labels[indices])
