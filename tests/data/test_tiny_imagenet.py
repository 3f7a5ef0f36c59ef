from __future__ import annotations

import logging

import numpy as np
import pytest
from data.official_files import plain_image, write_tiny_imagenet

from rescnet import DataError
from rescnet.data import describe, load

pytest.importorskip("PIL")

RED, GREEN, BLUE = (250, 0, 0), (0, 250, 0), (0, 0, 250)
WORDS = "n01\tgoldfish, Carassius auratus\nn02\tEgyptian cat\nn03\tcrane\nn04\tcrane\nn99\tunused, never\n"
WNIDS = ("n02", "n01", "n04", "n03")  # wnids.txt is not sorted


@pytest.fixture
def folder(shrink, tmp_path):
    shrink("tiny-imagenet", classes=4, n_train=12, n_test=3)
    folder = tmp_path / "tiny-imagenet-200"
    train = {wnid: [plain_image((60 * number, 0, 0)) for _ in range(11)] for number, wnid in enumerate(WNIDS)}
    train = {wnid: images[: 11 if wnid == "n02" else 2] for wnid, images in train.items()}
    train["n01"][1] = plain_image(77)  # the real set has some grey JPEGs
    train["n04"][0].paste(GREEN, (48, 0, 64, 16))  # top right corner
    write_tiny_imagenet(folder, train, [("n03", plain_image(BLUE)), ("n02", plain_image(RED)), ("n01", plain_image(9))])
    (folder / "words.txt").write_text(WORDS)
    return folder


def test_order_labels_and_names(folder, tmp_path):
    dataset = load("tiny-imagenet", tmp_path, download=False)
    np.testing.assert_array_equal(dataset.train.labels, [0] * 11 + [1, 1, 2, 2, 3, 3])
    assert dataset.class_names == ("Egyptian cat", "goldfish", "crane (n04)", "crane (n03)")
    assert dataset.validation is None


def test_pixels_and_orientation(folder, tmp_path):
    images = load("tiny-imagenet", tmp_path).train.images.astype(int)
    assert images.shape == (17, 3, 64, 64)
    grey = images[12]
    assert np.abs(grey - 77).max() <= 2 and (grey[0] == grey[1]).all() and (grey[0] == grey[2]).all()
    corner = images[13]
    assert np.abs(corner[:, 4, 60] - GREEN).max() <= 12
    for y, x in ((4, 4), (60, 4), (60, 60)):
        assert np.abs(corner[:, y, x] - (120, 0, 0)).max() <= 12


def test_val_is_the_test_split(folder, tmp_path):
    test = load("tiny-imagenet", tmp_path).test
    np.testing.assert_array_equal(test.labels, [3, 0, 1])
    assert np.abs(test.images[0].mean((1, 2)) - BLUE).max() < 4
    assert np.abs(test.images[1].mean((1, 2)) - RED).max() < 4


def test_incomplete_set_gives_a_warning(folder, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        load("tiny-imagenet", tmp_path)
    assert "has 17 training and 3 validation images; 12 and 3 were published" in caplog.text


def test_describe_counts_files(folder, tmp_path):
    row = describe(tmp_path)[5]
    assert (row.present, row.n_train, row.n_test) == (True, 17, 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("val_0.JPEG\tn77\t0\t0\t1\t1", "line 1 must have a file and a class"),
        ("../x.JPEG\tn01\t0\t0\t1\t1", "line 1 must have a file and a class"),
        ("val_9.JPEG\tn01\t0\t0\t1\t1", r"val_9\.JPEG cannot be read as an image"),
        ("", "lists no images"),
    ],
)
def test_wrong_annotations(folder, tmp_path, line, message):
    (folder / "val" / "val_annotations.txt").write_text(line + "\n")
    with pytest.raises(DataError, match=message):
        load("tiny-imagenet", tmp_path)


def test_class_without_words(folder, tmp_path):
    (folder / "words.txt").write_text("n02\tEgyptian cat\n")
    with pytest.raises(DataError, match=r"words\.txt has no words for n01"):
        load("tiny-imagenet", tmp_path)


def test_class_without_folder(folder, tmp_path):
    (folder / "wnids.txt").write_text("n02\nn01\nn04\nn99\n")
    with pytest.raises(DataError, match=r"n99.images is missing"):
        load("tiny-imagenet", tmp_path)
    assert not describe(tmp_path)[5].present


@pytest.mark.parametrize("wnid", ["{outside}", "..", "n04/../../.."])
def test_ids_that_are_paths(folder, tmp_path, wnid):
    """They would read images elsewhere."""
    outside = tmp_path / "outside"
    (outside / "images").mkdir(parents=True)
    plain_image(RED).save(outside / "images" / "1.JPEG")
    wnid = wnid.format(outside=outside)
    (folder / "wnids.txt").write_text(f"n02\nn01\n{wnid}\nn03\n")
    (folder / "words.txt").write_text(f"{WORDS}{wnid}\tprivate\n")
    with pytest.raises(DataError, match=r"wnids\.txt must have ids of letters and digits, got "):
        load("tiny-imagenet", tmp_path)


def test_wrong_size(folder, tmp_path):
    plain_image(RED, (60, 64)).save(folder / "train" / "n01" / "images" / "n01_1.JPEG")
    with pytest.raises(DataError, match=r"n01_1\.JPEG must be 64×64 like the other images, got 64×60"):
        load("tiny-imagenet", tmp_path)
