from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rescnet.data import Dataset, ImageSet
from rescnet.data.splits import (
    fingerprint,
    fingerprints,
    hold_out_images,
    stratified_sample,
    stratified_split,
)

LABELS = np.repeat([0, 1, 2], [10, 20, 2])


@pytest.fixture
def dataset() -> Dataset:
    images = np.arange(32, dtype=np.uint8).reshape(32, 1, 1, 1)
    return Dataset("numbers", ImageSet(images, LABELS, ("a", "b", "c")))


def test_split_is_stratified():
    train, validation = stratified_split(LABELS, 0.3, seed=1)
    assert sorted([*train, *validation]) == list(range(32))
    assert train.tolist() == sorted(train) and validation.tolist() == sorted(validation)
    assert np.bincount(LABELS[validation]).tolist() == [3, 6, 1]
    np.testing.assert_array_equal(stratified_split(LABELS, 0.3, seed=1)[1], validation)
    assert stratified_split(LABELS, 0.3, seed=2)[1].tolist() != validation.tolist()


def test_every_class_keeps_a_training_image():
    train, _ = stratified_split(LABELS, 0.99, seed=0)
    assert np.bincount(LABELS[train]).tolist() == [1, 1, 1]


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan")])
def test_wrong_fraction(fraction):
    with pytest.raises(ValueError, match="validation_fraction must be between 0 and 1, got"):
        stratified_split(LABELS, fraction, seed=0)


def test_empty_validation_set():
    with pytest.raises(ValueError, match=r"at least one image, got 0\.01 of 32 images"):
        stratified_split(LABELS, 0.01, seed=0)


def test_sample_has_two_images_per_class():
    assert np.bincount(LABELS[stratified_sample(LABELS, 16, seed=0)]).tolist() == [5, 10, 2]
    assert np.bincount(LABELS[stratified_sample(LABELS, 3, seed=0)]).tolist() == [2, 2, 2]


def test_hold_out_images(dataset):
    split = hold_out_images(dataset, 0.25, 16, seed=0)
    assert (len(split.train), len(split.validation)) == (14, 3)
    assert not set(split.train.images.ravel()) & set(split.validation.images.ravel())
    for part in (split.train, split.validation):
        np.testing.assert_array_equal(LABELS[part.images.ravel()], part.labels)
    assert hold_out_images(dataset, 0, 100, seed=0).train is dataset.train
    assert hold_out_images(split, 0.5, None, seed=0).validation is split.validation  # the set's own is kept


def test_fingerprints(dataset):
    train = dataset.train
    assert fingerprint(None) is None
    assert fingerprint(train) == fingerprint(train.subset(np.arange(32)))
    relabelled = dataclasses.replace(train, labels=train.labels[::-1])
    assert fingerprint(relabelled) != fingerprint(train) != fingerprint(train.subset(np.arange(31)))
    assert fingerprints(dataset) == {"train": fingerprint(train)}
