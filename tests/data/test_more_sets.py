"""KMNIST, K49, EMNIST, SVHN, STL-10 and ciFAIR: small files in the layouts of their authors."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data.official_files import python2_pickle, write_idx, write_mnist
from scipy.io import savemat

from rescnet import DataError
from rescnet.data import load
from rescnet.data.archives import PUBLIC_SETS

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (5, 28, 28), np.uint8)


def test_kmnist(shrink, tmp_path):
    shrink("kmnist", n_train=3, n_test=2)
    write_mnist(tmp_path / "KMNIST" / "raw", (GREY[:3], [0, 9, 1]), (GREY[3:], [2, 3]))
    kmnist = load("kmnist", tmp_path, download=False)
    np.testing.assert_array_equal(kmnist.test.images[:, 0], GREY[3:])
    assert [kmnist.class_names[label] for label in kmnist.train.labels] == ["お", "を", "き"]


@pytest.fixture
def k49(shrink, tmp_path):
    shrink("k49", n_train=3, n_test=2)
    folder = tmp_path / "K49"
    folder.mkdir()
    for part, images, labels in (("train", GREY[:3], [0, 48, 3]), ("test", GREY[3:], [1, 2])):
        np.savez_compressed(folder / f"k49-{part}-imgs.npz", images)
        np.savez_compressed(folder / f"k49-{part}-labels.npz", np.array(labels, np.uint8))
    return folder


def test_k49(k49, tmp_path):
    found = load("k49", tmp_path, download=False)
    np.testing.assert_array_equal(found.train.images[:, 0], GREY[:3])
    assert found.train.labels.tolist() == [0, 48, 3]
    assert len(set(found.class_names)) == 49 and found.class_names[48] == "ゝ"


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("imgs", GREY[:2], r"of shape \(3, 28, 28\), got uint8 of shape \(2, 28, 28\)"),
        ("imgs", GREY[:3].astype(float), "got float64"),
        ("labels", np.array([0, 49, 0], np.uint8), r"labels in 0\.\.48, got 49 at image 1"),
        ("labels", np.array([None] * 3), "Python objects"),
    ],
)
def test_damaged_k49(k49, tmp_path, name, array, message):
    np.savez(k49 / f"k49-train-{name}.npz", array)
    with pytest.raises(DataError, match=message):
        load("k49", tmp_path)


@pytest.mark.parametrize("folder", ["EMNIST/raw/gzip", "EMNIST/raw"])
@pytest.mark.parametrize(("split", "labels", "names"), [("letters", [1, 26], "AZ"), ("balanced", [36, 46], "at")])
def test_emnist(shrink, tmp_path, folder, split, labels, names):
    """Images are stored column by column; labels of letters count from 1."""
    shrink(f"emnist-{split}", n_train=2, n_test=2)
    for part in ("train", "test"):
        start, ending = f"emnist-{split}-{part}", ".gz" if folder.endswith("gzip") else ""
        write_idx(tmp_path / folder / f"{start}-images-idx3-ubyte{ending}", GREY[:2].transpose(0, 2, 1))
        write_idx(tmp_path / folder / f"{start}-labels-idx1-ubyte{ending}", np.array(labels))
    found = load(f"emnist-{split}", tmp_path, download=False)
    np.testing.assert_array_equal(found.test.images[:, 0], GREY[:2])
    assert "".join(found.class_names[label] for label in found.train.labels) == names
    write_idx(tmp_path / folder / f"emnist-{split}-test-labels-idx1-ubyte{ending}", np.array([1, 47]))
    with pytest.raises(DataError, match=r"labels in (1\.\.26|0\.\.46), got 47 at image 1"):
        load(f"emnist-{split}", tmp_path)


def test_emnist_has_as_many_names_as_classes():
    numbers = {"balanced": 47, "byclass": 62, "bymerge": 47, "digits": 10, "letters": 26, "mnist": 10}
    assert {split: len(PUBLIC_SETS[f"emnist-{split}"].class_names) for split in numbers} == numbers


COLOUR = RNG.integers(0, 256, (5, 3, 32, 32), np.uint8)


@pytest.fixture
def svhn(shrink, tmp_path):
    folder = tmp_path / "SVHN"
    folder.mkdir()
    for part, images, labels in (("train", COLOUR[:3], [10, 1, 9]), ("test", COLOUR[3:], [5, 10])):
        write_svhn(folder / f"{part}_32x32.mat", images, labels)
    publish_svhn(shrink, folder)
    return folder / "train_32x32.mat"


def publish_svhn(shrink, folder):
    """Let the MD5 of these files be the published ones."""
    downloads = PUBLIC_SETS["svhn"].downloads
    md5 = [hashlib.md5((folder / Path(remote.target).name).read_bytes()).hexdigest() for remote in downloads]
    published = tuple(replace(remote, md5=found) for remote, found in zip(downloads, md5, strict=True))
    shrink("svhn", n_train=3, n_test=2, downloads=published)


def write_svhn(path, images, labels):
    content = {"X": images.transpose(2, 3, 1, 0), "y": np.array(labels, np.uint8)[:, None]}
    savemat(path, content, do_compression=True)


def test_svhn(svhn, tmp_path):
    found = load("svhn", tmp_path, download=False)
    np.testing.assert_array_equal(found.train.images, COLOUR[:3])
    assert [found.class_names[label] for label in found.train.labels] == ["0", "1", "9"]
    assert found.test.labels.tolist() == [5, 0]


@pytest.mark.parametrize("bit", [8 * 130 + 1, -1])
def test_flipped_bits_of_svhn(svhn, tmp_path, monkeypatch, bit):
    """SciPy ends the process at some of them, so it must not see any."""
    monkeypatch.setattr("scipy.io.loadmat", lambda *_, **__: pytest.fail("read an altered file"))
    data = bytearray(svhn.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    svhn.write_bytes(data)
    with pytest.raises(DataError, match=r"train_32x32\.mat must have the published MD5 \w+, got"):
        load("svhn", tmp_path)


def test_svhn_of_another_shape(shrink, svhn, tmp_path):
    write_svhn(svhn, COLOUR[:2], [1, 2])
    publish_svhn(shrink, svhn.parent)
    with pytest.raises(DataError, match=r"of shape \(32, 32, 3, 3\), got uint8 of shape \(32, 32, 3, 2\)"):
        load("svhn", tmp_path)


def test_stl10(shrink, tmp_path):
    """Planes are stored column by column, labels count from 1, and unlabelled images are not needed."""
    shrink("stl10", n_train=3, n_test=2)
    folder, images = tmp_path / "stl10_binary", RNG.integers(0, 256, (5, 3, 96, 96), np.uint8)
    folder.mkdir()
    for part, some, labels in (("train", images[:3], [1, 10, 2]), ("test", images[3:], [3, 4])):
        (folder / f"{part}_X.bin").write_bytes(some.transpose(0, 1, 3, 2).tobytes())
        (folder / f"{part}_y.bin").write_bytes(bytes(labels))
    (folder / "class_names.txt").write_text("\n".join(f"class{number}" for number in range(10)) + "\n")
    found = load("stl10", tmp_path, download=False)
    np.testing.assert_array_equal(found.train.images, images[:3])
    assert [found.class_names[label] for label in found.train.labels] == ["class0", "class9", "class1"]
    (folder / "test_y.bin").write_bytes(bytes([3, 0]))
    with pytest.raises(DataError, match=r"labels in 1\.\.10, got 0 at image 1"):
        load("stl10", tmp_path)
    (folder / "test_X.bin").write_bytes(b"short")
    with pytest.raises(DataError, match="must have 55,296 bytes, got 5"):
        load("stl10", tmp_path)


@pytest.mark.parametrize("name", ["cifair10", "cifair100"])
def test_cifair(shrink, tmp_path, name):
    """Training files are CIFAR's; the test file is pickled by Python 3, without file names."""
    shrink(name, n_train=5, n_test=2)
    fine = "fine_" if name == "cifair100" else ""
    folder = tmp_path / name.replace("cifair", "ciFAIR-")
    folder.mkdir()
    pixels = COLOUR.reshape(5, -1)
    if fine:
        train = {"data": pixels, "fine_labels": [0, 1, 2, 3, 99], "coarse_labels": [0] * 5, "filenames": ["a"] * 5}
        (folder / "train").write_bytes(python2_pickle(train))
    else:
        for number in range(5):
            batch = {"data": pixels[number : number + 1], "labels": [number], "filenames": ["a"]}
            (folder / f"data_batch_{number + 1}").write_bytes(python2_pickle(batch))
    names = [f"class{number}" for number in range(100 if fine else 10)]
    (folder / ("meta" if fine else "batches.meta")).write_bytes(python2_pickle({f"{fine}label_names": names}))
    test = {"data": pixels[:2], f"{fine}labels": [7, 8]}
    (folder / ("test" if fine else "test_batch")).write_bytes(pickle.dumps(test, protocol=2))
    found = load(name, tmp_path, download=False)
    np.testing.assert_array_equal(found.train.images, COLOUR)
    assert found.test.labels.tolist() == [7, 8] and found.class_names[8] == "class8"


@pytest.mark.parametrize("name", ["kmnist", "k49", "emnist-letters", "svhn", "stl10", "cifair100"])
def test_files_to_put_there_are_named(name, tmp_path):
    with pytest.raises(DataError, match=Path(PUBLIC_SETS[name].downloads[0].target).name):
        load(name, tmp_path, download=False)
