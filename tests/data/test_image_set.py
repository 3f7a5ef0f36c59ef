from __future__ import annotations

import numpy as np
import pytest

from rescnet import DataError
from rescnet.data import Dataset, ImageSet
from rescnet.data.splits import join_validation

IMAGES = np.zeros((3, 1, 4, 5), np.uint8)
LABELS = np.array([0, 1, 1])


def test_properties():
    images = ImageSet(IMAGES, LABELS, ("a", "b"))
    assert len(images) == 3
    assert images.shape == (1, 4, 5)
    dataset = Dataset("two", images, test=images)
    assert (dataset.name, dataset.shape, dataset.class_names) == ("two", (1, 4, 5), ("a", "b"))
    assert dataset.validation is None


def test_repr_says_what_is_there_and_prints_no_pixels():
    images = ImageSet(IMAGES, LABELS, ("a", "b"))
    assert repr(images) == "ImageSet(3 images of 4×5×1, 2 classes)"
    whole = Dataset("two", images, test=images)
    assert repr(whole) == "Dataset('two', 3 training, 3 test images of 4×5×1, 2 classes)"


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES[:, 0], LABELS, r"got \(3, 4, 5\)"),
        (np.zeros((3, 2, 4, 5), np.uint8), LABELS, r"1 or 3 channels"),
        (IMAGES[:0], LABELS[:0], "no empty axis"),
        (IMAGES.astype(np.float64), LABELS, "images must be uint8 or float32, got float64"),
        (IMAGES, LABELS[:2], r"int64 of shape \(3,\), one per image, got int64 of shape \(2,\)"),
        (IMAGES, LABELS.astype(np.int32), "got int32"),
        (IMAGES, LABELS + 1, "indices of the 2 class names, got 1 to 2"),
        (IMAGES, LABELS - 1, "got -1 to 0"),
    ],
)
def test_wrong_arrays(images, labels, message):
    with pytest.raises(DataError, match=message):
        ImageSet(images, labels, ("a", "b"))


def test_files_follow_their_images():
    images = ImageSet(IMAGES, LABELS, ("a", "b"), ("a/0.png", "b/1.png", "b/2.png"))
    part = images.subset(np.array([2, 0]))
    assert part.files == ("b/2.png", "a/0.png")
    assert join_validation(Dataset("x", part, validation=images)).train.files == part.files + images.files
    with pytest.raises(DataError, match=r"files must be empty or 3, one per image, got 1\."):
        ImageSet(IMAGES, LABELS, ("a", "b"), ("a/0.png",))


def test_splits_must_match():
    train = ImageSet(IMAGES, LABELS, ("a", "b"))
    with pytest.raises(DataError, match=r"test images must have the shape .*, \(1, 4, 5\), got \(1, 5, 4\)"):
        Dataset("x", train, test=ImageSet(IMAGES.reshape(3, 1, 5, 4), LABELS, ("a", "b")))
    with pytest.raises(DataError, match="must have the same classes"):
        Dataset("x", train, validation=ImageSet(IMAGES, LABELS, ("b", "a")))
