from __future__ import annotations

import gzip

import numpy as np
import pytest
from data.official_files import write_idx, write_mnist

from rescnet import DataError
from rescnet.data import load

TRAIN_IMAGES = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 251
TRAIN = (TRAIN_IMAGES, np.array([7, 0, 9]))
TEST = (255 - TRAIN_IMAGES[:2], np.array([1, 2]))


@pytest.fixture
def raw(shrink, tmp_path):
    shrink("mnist", n_train=3, n_test=2)
    return tmp_path / "MNIST" / "raw"


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_mnist(raw, tmp_path, ending):
    write_mnist(raw, TRAIN, TEST, ending)
    mnist = load("mnist", tmp_path, download=False)
    assert mnist.train.images.dtype == np.uint8
    assert mnist.train.images.shape == (3, 1, 28, 28)
    np.testing.assert_array_equal(mnist.train.images[:, 0], TRAIN[0])
    np.testing.assert_array_equal(mnist.train.labels, [7, 0, 9])
    np.testing.assert_array_equal(mnist.test.images[:, 0], TEST[0])
    np.testing.assert_array_equal(mnist.test.labels, [1, 2])
    assert mnist.class_names == tuple("0123456789")
    assert mnist.validation is None


def test_mixed_plain_and_gzipped(raw, tmp_path):
    write_mnist(raw, TRAIN, TEST)
    (raw / "t10k-labels-idx1-ubyte.gz").unlink()
    write_idx(raw / "t10k-labels-idx1-ubyte", np.array([4, 5]))
    np.testing.assert_array_equal(load("mnist", tmp_path, download=False).test.labels, [4, 5])


def test_images_are_writable(raw, tmp_path):
    write_mnist(raw, TRAIN, TEST)
    load("mnist", tmp_path).train.images[0] = 0  # torch.from_numpy warns of read-only arrays


def test_fashion_mnist(shrink, tmp_path):
    shrink("fashion-mnist", n_train=3, n_test=2)
    write_mnist(tmp_path / "FashionMNIST" / "raw", TRAIN, TEST)
    fashion = load("fashion-mnist", tmp_path, download=False)
    assert [fashion.class_names[label] for label in fashion.train.labels] == ["Sneaker", "T-shirt/top", "Ankle boot"]


def test_truncated_file(raw, tmp_path):
    write_mnist(raw, TRAIN, TEST, "")
    path = raw / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte must have 2,368 bytes, got 2,358"):
        load("mnist", tmp_path)


def test_too_long_file(raw, tmp_path):
    write_mnist(raw, TRAIN, TEST)
    path = raw / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + b"x"))
    with pytest.raises(DataError, match="must have 2,368 bytes, got more"):
        load("mnist", tmp_path)


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda content: b"<html>" + content])
def test_damaged_gzip(raw, tmp_path, damage):
    write_mnist(raw, TRAIN, TEST)
    path = raw / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz is not a complete gzip file"):
        load("mnist", tmp_path)


def test_labels_instead_of_images(raw, tmp_path):
    write_mnist(raw, TRAIN, TEST, "")
    path = raw / "train-images-idx3-ubyte"
    path.write_bytes(b"\0\0\x08\x01" + path.read_bytes()[4:])
    with pytest.raises(DataError, match=r"must be an idx file of shape \(3, 28, 28\), got another header"):
        load("mnist", tmp_path)


def test_empty_file(raw, tmp_path):
    write_mnist(raw, TRAIN, TEST, "")
    (raw / "train-labels-idx1-ubyte").write_bytes(b"")
    with pytest.raises(DataError, match="train-labels-idx1-ubyte must have 11 bytes, got 0"):
        load("mnist", tmp_path)


def test_wrong_shape(raw, tmp_path):
    write_mnist(raw, (np.zeros((3, 14, 56)), TRAIN[1]), TEST)
    with pytest.raises(DataError, match=r"ubyte\.gz must be an idx file of shape \(3, 28, 28\), got another"):
        load("mnist", tmp_path)
