from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from data.official_files import cifar_record, python2_pickle

from rescnet import DataError
from rescnet.data import load

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (6, 32, 32, 3), np.uint8)  # rows, columns, RGB
PLANES = IMAGES.transpose(0, 3, 1, 2)
LABELS = [3, 9, 0, 1, 8, 5]
TEN_NAMES = [f"thing {number}" for number in range(10)]
HUNDRED_NAMES = [f"thing_{number}" for number in range(100)]


def write_cifar10_binary(root):
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    for number, name in enumerate([*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"]):
        (folder / f"{name}.bin").write_bytes(cifar_record((LABELS[number],), IMAGES[number]))
    (folder / "batches.meta.txt").write_text("\n".join(TEN_NAMES) + "\n\n")  # the official file ends like this
    return folder


def write_cifar10_python(root, dump=python2_pickle):
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for number, name in enumerate([*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"]):
        batch = {
            "batch_label": f"batch {number}",
            "labels": [LABELS[number]],
            "data": PLANES[number].reshape(1, 3072),
            "filenames": ["some.png"],
        }
        (folder / name).write_bytes(dump(batch))
    meta = {"num_cases_per_batch": 1, "label_names": TEN_NAMES, "num_vis": 3072}
    (folder / "batches.meta").write_bytes(dump(meta))
    return folder


def python3_pickle(value):
    return pickle.dumps(value, protocol=2)


def python3_pickle_with_bytes_keys(value):
    return pickle.dumps({key.encode(): content for key, content in value.items()}, protocol=2)


@pytest.fixture
def cifar10(shrink):
    return shrink("cifar10", n_train=5, n_test=1)


@pytest.fixture
def cifar100(shrink):
    return shrink("cifar100", n_train=4, n_test=2)


def check(dataset, train, labels, names):
    assert dataset.train.images.dtype == np.uint8
    for split, part in ((dataset.train, slice(train)), (dataset.test, slice(train, None))):
        np.testing.assert_array_equal(split.images, PLANES[part])
        np.testing.assert_array_equal(split.labels, labels[part])
    assert dataset.class_names == tuple(names)


def check_cifar10(dataset):
    check(dataset, 5, LABELS, TEN_NAMES)


def check_cifar100(dataset):
    check(dataset, 4, [99, 1, 0, 42, 98, 3], HUNDRED_NAMES)


def test_cifar10_binary(cifar10, tmp_path):
    write_cifar10_binary(tmp_path)
    check_cifar10(load("cifar10", tmp_path, download=False))


@pytest.mark.parametrize("dump", [python2_pickle, python3_pickle, python3_pickle_with_bytes_keys])
def test_cifar10_python(cifar10, tmp_path, dump):
    write_cifar10_python(tmp_path, dump)
    check_cifar10(load("cifar10", tmp_path, download=False))


def test_python2_pickles_are_read_by_pickle(tmp_path):
    content = (write_cifar10_python(tmp_path) / "data_batch_1").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy.core is an old name
        batch = pickle.loads(content, encoding="latin1")
    np.testing.assert_array_equal(batch["data"], PLANES[0].reshape(1, 3072))
    assert batch["labels"] == [3]


def test_cifar100_binary(cifar100, tmp_path):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    coarse_and_fine = [(19, 99), (0, 1), (5, 0), (7, 42), (1, 98), (2, 3)]
    records = [cifar_record(pair, image) for pair, image in zip(coarse_and_fine, IMAGES, strict=True)]
    (folder / "train.bin").write_bytes(b"".join(records[:4]))
    (folder / "test.bin").write_bytes(b"".join(records[4:]))
    (folder / "fine_label_names.txt").write_text("\n".join(HUNDRED_NAMES) + "\n")
    check_cifar100(load("cifar100", tmp_path, download=False))


def test_cifar100_python(cifar100, tmp_path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    for name, here, fine in (("train", slice(0, 4), [99, 1, 0, 42]), ("test", slice(4, 6), [98, 3])):
        rows = PLANES[here].reshape(-1, 3072)
        batch = {"filenames": ["x"] * len(fine), "fine_labels": fine, "coarse_labels": [0] * len(fine), "data": rows}
        (folder / name).write_bytes(python2_pickle(batch))
    meta = {"fine_label_names": HUNDRED_NAMES, "coarse_label_names": ["c"] * 20}
    (folder / "meta").write_bytes(python2_pickle(meta))
    check_cifar100(load("cifar100", tmp_path, download=False))


def test_truncated_binary(cifar10, tmp_path):
    path = write_cifar10_binary(tmp_path) / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"data_batch_3\.bin must have 3,073 bytes, got 3,072"):
        load("cifar10", tmp_path)


def test_label_out_of_range(cifar10, tmp_path):
    path = write_cifar10_binary(tmp_path) / "data_batch_4.bin"
    path.write_bytes(b"\x0a" + path.read_bytes()[1:])
    with pytest.raises(DataError, match=r"data_batch_4\.bin must have labels in 0\.\.9, got 10 at image 0"):
        load("cifar10", tmp_path)


def test_negative_label(cifar10, tmp_path):
    path = write_cifar10_python(tmp_path) / "data_batch_4"
    path.write_bytes(python2_pickle({"data": PLANES[3].reshape(1, 3072), "labels": [-1]}))
    with pytest.raises(DataError, match=r"data_batch_4 must have labels in .*, got -1 at image 0"):
        load("cifar10", tmp_path)


def test_too_few_names(cifar10, tmp_path):
    (write_cifar10_binary(tmp_path) / "batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match=r"batches\.meta\.txt must name 10 classes, got 2"):
        load("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"data": PLANES[0].reshape(1, 3072)}, "must have an entry 'labels', got"),
        ({"data": PLANES[0].reshape(1, 3072)[:, 1:], "labels": [1]}, r"must have data of shape \(1, 3072\), got other"),
        ({"data": "abc", "labels": [1]}, r"must have data of shape \(1, 3072\), got other"),
        ({"data": PLANES[0].reshape(1, 3072), "labels": [1, 2]}, "must have a list of 1 integers under 'labels'"),
        ({"data": PLANES[0].reshape(1, 3072), "labels": ["x"]}, "must have a list of 1 integers under 'labels'"),
    ],
)
def test_wrong_python_batch(cifar10, tmp_path, batch, message):
    path = write_cifar10_python(tmp_path) / "data_batch_1"
    path.write_bytes(python2_pickle(batch))
    with pytest.raises(DataError, match=rf"data_batch_1 {message}"):
        load("cifar10", tmp_path)
