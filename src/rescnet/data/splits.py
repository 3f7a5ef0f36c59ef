"""Splits of the training images, and fingerprints to recognise a split later.

Hyper-parameters and depth are chosen on validation images, never on test images.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ConfigError, DataError
from .image_set import Dataset, ImageSet

Indices = NDArray[np.intp]  # of images, ascending
CHECKSUM_BYTES = 6  # one of 10,000 other images is mistaken for one of 100,000 with a chance of 1 in 280,000
MOST_CHECKSUMS = 100_000  # 800 kB in the file of a model


def stratified_split(labels: NDArray[Any], fraction: float, seed: int) -> tuple[Indices, Indices]:
    """Return the indices of training and of validation images with labels (n,), each class in proportion.

    The fraction of validation images is between 0 and 1, both excluded. Every class keeps at least one training image.

    Examples
    --------
    >>> train, validation = stratified_split(np.array([0, 0, 0, 1, 1, 1]), 1 / 3, seed=0)
    >>> len(train), len(validation)
    (4, 2)
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"validation_fraction must be between 0 and 1, got {fraction:g}. Use 0.2, for example.")
    generator = np.random.default_rng(seed)
    held_out = []
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        held_out.append(members[: min(round(fraction * len(members)), len(members) - 1)])
    validation = np.sort(np.concatenate(held_out))
    if not len(validation):
        raise ConfigError(
            f"validation_fraction must hold out at least one image, got {fraction:g} of {len(labels)} images. "
            "Use a larger fraction or more images."
        )
    return np.setdiff1d(np.arange(len(labels)), validation), validation


def stratified_sample(labels: NDArray[Any], count: int, seed: int) -> Indices:
    """Choose about `count` images, each class in proportion and at least two per class; return their indices."""
    generator = np.random.default_rng(seed)
    chosen = []
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        chosen.append(members[: max(2, round(count / len(labels) * len(members)))])
    return np.sort(np.concatenate(chosen))


def first_of_each_class(labels: NDArray[np.int64], images: int) -> Indices:
    """Return the indices of the first n images of each class, ascending, from labels (images,)."""
    counts = np.bincount(labels)
    if not 1 <= images <= counts.max():
        raise DataError(
            f"the number of training images per class must be between 1 and {counts.max():,}, got {images:,}."
        )
    order = np.argsort(labels, kind="stable")
    place = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)  # within its class
    return np.sort(order[place < images])


def keep_first(dataset: Dataset, images: int) -> Dataset:
    """Return the data set with the first n training images of each class; its other splits stay."""
    chosen = first_of_each_class(dataset.train.labels, images)
    note = f"training images: the first {images:,} of each class, {len(chosen):,} of {len(dataset.train):,}"
    train, notes = dataset.train.subset(chosen), (*dataset.notes, note)
    return replace(dataset, name=f"{dataset.name}:{images}", train=train, notes=notes)


def hold_out_images(dataset: Dataset, fraction: float, limit: int | None, seed: int) -> Dataset:
    """Return the data set with fewer training images, and some of them as validation images.

    ``fraction`` of the training images, in each class, become validation images if there are none; 0 uses none. With
    ``limit`` about that number of training images is used, each class in proportion and at least two per class.
    """
    train = dataset.train
    if limit is not None and limit < len(train):
        train = train.subset(stratified_sample(train.labels, limit, seed))
    if dataset.validation is not None or fraction == 0:
        return replace(dataset, train=train)
    kept, held_out = stratified_split(train.labels, fraction, seed)
    return replace(dataset, train=train.subset(kept), validation=train.subset(held_out))


def join_validation(dataset: Dataset) -> Dataset:
    """Return the data set with its validation images behind its training images, and none for validation."""
    train, held_out = dataset.train, dataset.validation
    if held_out is None:
        return dataset
    images, labels = (
        np.concatenate(pair) for pair in ((train.images, held_out.images), (train.labels, held_out.labels))
    )
    files = train.files + held_out.files
    return replace(dataset, train=replace(train, images=images, labels=labels, files=files), validation=None)


def fingerprint(images: ImageSet | None) -> str | None:
    """Return the SHA-256 of images and labels, so that changed images under the same name are noticed."""
    if images is None:
        return None
    digest = hashlib.sha256(np.ascontiguousarray(images.images).data)
    digest.update(np.ascontiguousarray(images.labels).data)
    return digest.hexdigest()


def checksums(images: NDArray[Any]) -> str | None:
    """Return short checksums of images (n, c, h, w) as text, to recognise them later; None if there are too many."""
    if len(images) > MOST_CHECKSUMS:
        return None
    return b64encode(b"".join(sorted(checksum(image) for image in images))).decode()


def are_among(images: NDArray[Any], known: str) -> NDArray[np.bool_]:
    """Return whether each image (n, c, h, w) has one of the known checksums, shape (n,)."""
    joined = b64decode(known)
    listed = {joined[start : start + CHECKSUM_BYTES] for start in range(0, len(joined), CHECKSUM_BYTES)}
    return np.array([checksum(image) in listed for image in images], bool)


def checksum(image: NDArray[Any]) -> bytes:
    """Return the short checksum of an image."""
    return hashlib.blake2b(np.ascontiguousarray(image).data, digest_size=CHECKSUM_BYTES).digest()


def fingerprints(dataset: Dataset) -> dict[str, str]:
    """Return the fingerprint of each split of a data set, by the name of the split."""
    splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    return {name: digest for name, images in splits.items() if (digest := fingerprint(images))}
