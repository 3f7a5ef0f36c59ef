"""Hold training images out: choices are made on them, never on the test set."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .image_set import Dataset, ImageSet


def hold_out(labels: NDArray[Any], fraction: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split images in two, each class in proportion; a class keeps at least one image for training.

    Parameters
    ----------
    labels : array, shape (n,)
    fraction : float
        Share held out, above 0 and below 1.
    seed : int

    Returns
    -------
    kept, held : arrays of int
        Indices of images, ascending.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"validation_fraction is {fraction:g}: choose a share between 0 and 1, as 0.2.")
    generator = np.random.default_rng(seed)
    held = []
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        held.append(members[: min(round(fraction * len(members)), len(members) - 1)])
    chosen = np.sort(np.concatenate(held))
    if not len(chosen):
        raise ValueError(
            f"a validation fraction of {fraction:g} of {len(labels)} images holds none out: choose a greater share, or "
            f"more images."
        )
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen


def hold_out_images(dataset: Dataset, fraction: float, limit: int | None, seed: int) -> Dataset:
    """Return the data set with fewer training images, and some of them as validation images.

    Parameters
    ----------
    dataset : Dataset
    fraction : float
        Fraction of training images to use for validation if the data set has no validation images. 0 uses none.
    limit : int, optional
        Use about this number of training images, each class in proportion and at least two per class.
    seed : int
    """
    train = dataset.train
    if limit is not None and limit < len(train):
        train = _subset(train, _sample(train.labels, limit, seed))
    if dataset.validation is not None or fraction == 0:
        return replace(dataset, train=train)
    kept, held_out = hold_out(train.labels, fraction, seed)
    return replace(dataset, train=_subset(train, kept), validation=_subset(train, held_out))


def fingerprint(images: ImageSet | None) -> str | None:
    """Return the SHA-256 of images and labels, so that changed images under the same name are noticed."""
    if images is None:
        return None
    digest = hashlib.sha256(np.ascontiguousarray(images.images).data)
    digest.update(np.ascontiguousarray(images.labels).data)
    return digest.hexdigest()


def fingerprints(dataset: Dataset) -> dict[str, str]:
    """Return the fingerprint of each split of a data set, by the name of the split."""
    splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    return {name: digest for name, images in splits.items() if (digest := fingerprint(images))}


def _sample(labels: NDArray[Any], count: int, seed: int) -> NDArray[np.intp]:
    """Choose about ``count`` images, each class in proportion and at least two per class."""
    generator = np.random.default_rng(seed)
    chosen = []
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        chosen.append(members[: max(2, round(count / len(labels) * len(members)))])
    return np.sort(np.concatenate(chosen))


def _subset(images: ImageSet, indices: NDArray[np.intp]) -> ImageSet:
    return replace(images, images=images.images[indices], labels=images.labels[indices])
