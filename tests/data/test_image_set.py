from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rescnet.data import DataError, Dataset, ImageSet

IMAGES = np.zeros((3, 1, 4, 5), np.uint8)
LABELS = np.array([0, 1, 1])


def test_what_it_says_of_itself():
    images = ImageSet(IMAGES, LABELS, ("a", "b"))
    assert len(images) == 3
    assert images.shape == (1, 4, 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        images.labels = LABELS
    dataset = Dataset("two", images, test=images)
    assert (dataset.name, dataset.shape, dataset.class_names) == ("two", (1, 4, 5), ("a", "b"))
    assert dataset.validation is None


@pytest.mark.parametrize(
    ("images", "labels", "complaint"),
    [
        (IMAGES[:, 0], LABELS, r"shape \(3, 4, 5\)"),
        (np.zeros((3, 2, 4, 5), np.uint8), LABELS, r"1 or 3 channels"),
        (IMAGES[:0], LABELS[:0], "no empty side"),
        (IMAGES.astype(np.float64), LABELS, "images are float64"),
        (IMAGES, LABELS[:2], r"shape \(2,\): expected int64 of shape \(3,\)"),
        (IMAGES, LABELS.astype(np.int32), "labels are int32"),
        (IMAGES, LABELS + 1, "labels run from 1 to 2 but there are 2 class names"),
        (IMAGES, LABELS - 1, "labels run from -1 to 0"),
    ],
)
def test_what_is_refused(images, labels, complaint):
    with pytest.raises(DataError, match=complaint):
        ImageSet(images, labels, ("a", "b"))


def test_splits_must_fit_together():
    train = ImageSet(IMAGES, LABELS, ("a", "b"))
    with pytest.raises(DataError, match=r"test images have shape \(1, 5, 4\) but training images \(1, 4, 5\)"):
        Dataset("x", train, test=ImageSet(IMAGES.reshape(3, 1, 5, 4), LABELS, ("a", "b")))
    with pytest.raises(DataError, match="do not have the same classes"):
        Dataset("x", train, validation=ImageSet(IMAGES, LABELS, ("b", "a")))
