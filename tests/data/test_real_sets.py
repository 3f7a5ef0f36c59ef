"""Published figures of the real data sets, where these are present."""

from __future__ import annotations

import numpy as np
import pytest

from rescnet.data import describe, load

PRESENT = {row.name for row in describe() if row.present}


def real(name: str):
    if name not in PRESENT:
        pytest.skip(f"{name} is not in the data folder; set RESCNET_DATA or download it to run this test")
    return load(name, download=False)


@pytest.mark.parametrize(
    ("name", "means", "counts"),
    [
        ("mnist", [33.3184], [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        ("fashion-mnist", [72.9404], [6000] * 10),
        ("cifar10", [125.3069, 122.9501, 113.8660], [5000] * 10),
        ("cifar100", [129.3042, 124.0700, 112.4341], [500] * 100),
    ],
)
def test_channel_means_and_class_counts(name, means, counts):
    train = real(name).train
    found = train.images.sum((0, 2, 3), dtype=np.int64) / (train.images[:, 0].size)
    np.testing.assert_allclose(found, means, atol=2e-3)
    np.testing.assert_array_equal(np.bincount(train.labels), counts)
    assert len(train.class_names) == len(counts)


def test_tiny_imagenet():
    dataset = real("tiny-imagenet")
    assert dataset.shape == (3, 64, 64)
    assert len(set(dataset.class_names)) == 200
    assert {"goldfish", "Egyptian cat"} <= set(dataset.class_names)
    assert set(dataset.train.labels.tolist()) == set(range(200))
