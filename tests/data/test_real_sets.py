"""Published figures of the real data sets, where these are present."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from rescnet.data import load
from rescnet.data.archives import PUBLIC_SETS
from rescnet.data.fetch import default_root, find_layout


def skip_unless_present(name: str):
    if find_layout(PUBLIC_SETS[name], default_root()) is None:
        pytest.skip(f"{name} is not in the data folder; set RESCNET_DATA or download it to run this test")


def real(name: str):
    skip_unless_present(name)
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


def some_of_tiny_imagenet(folder: Path):
    """Link two training images of each class and 20 test images: decoding all 110,000 takes a minute."""
    whole = default_root() / "tiny-imagenet-200"
    annotations = (whole / "val" / "val_annotations.txt").read_text().splitlines(keepends=True)[:20]
    files = [whole / "val" / "images" / line.split("\t")[0] for line in annotations]
    for images in whole.glob("train/*/images"):
        files += islice(images.iterdir(), 2)
    for file in (*files, whole / "wnids.txt", whole / "words.txt"):
        link = folder / file.relative_to(whole)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    (folder / "val" / "val_annotations.txt").write_text("".join(annotations))


def test_tiny_imagenet(tmp_path):
    skip_unless_present("tiny-imagenet")
    some_of_tiny_imagenet(tmp_path / "tiny-imagenet-200")
    dataset = load("tiny-imagenet", tmp_path, download=False)
    assert dataset.shape == (3, 64, 64)
    assert len(set(dataset.class_names)) == 200
    assert {"goldfish", "Egyptian cat"} <= set(dataset.class_names)
    assert dataset.train.labels.tolist() == [label for label in range(200) for _ in range(2)]
