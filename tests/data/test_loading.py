from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from data.official_files import plain_image, write_mnist

from rescnet import DataError
from rescnet.data import DatasetRow, describe, load
from rescnet.data.loading import load_to_train


def test_digits():
    from sklearn.datasets import load_digits

    digits = load("digits")
    original = load_digits()
    assert digits.train.images.shape == (1797, 1, 8, 8)
    assert digits.train.images.dtype == np.uint8
    assert (digits.train.images.min(), digits.train.images.max()) == (0, 255)
    for value, scaled in ((0, 0), (1, 16), (8, 128), (15, 239), (16, 255)):
        assert (digits.train.images[:, 0][original.images == value] == scaled).all()
    np.testing.assert_array_equal(digits.train.labels, original.target)
    assert digits.test is None and digits.validation is None
    assert digits.class_names == tuple("0123456789")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("cifar-10", "cifar10"),
        ("CIFAR100", "cifar100"),
        ("FashionMNIST", "fashion-mnist"),
        ("imagenet", "tiny-imagenet"),
    ],
)
def test_unknown_name(name, nearest):
    with pytest.raises(DataError, match=rf"got '{name}', which does not exist\. Did you mean '{nearest}'\?$"):
        load(name)


def test_unknown_name_without_suggestion():
    with pytest.raises(DataError, match=r"got 'qwxyz', which does not exist\. Public data sets: digits, mnist, .*\.$"):
        load("qwxyz")


@pytest.mark.parametrize("source", ["shaps", "./shaps/", Path("shaps"), "shaps:5"])
def test_misspelt_folder(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shapes").mkdir()
    with pytest.raises(DataError, match=r"which does not exist\. Did you mean 'shapes'\?$"):
        load(source)


@pytest.mark.parametrize("path", ["./mnist", Path("mnist"), "own.npz"])
def test_missing_path(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        load(path)


def test_other_file(tmp_path):
    (tmp_path / "images.csv").write_text("1,2")
    with pytest.raises(DataError, match=r"images\.csv must be a folder of images or a \.npz file"):
        load(tmp_path / "images.csv")


def test_image_size_is_for_folders_only(tmp_path):
    with pytest.raises(DataError, match="image_size must be None for digits"):
        load("digits", image_size=(4, 4))
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 2, 2)), y=[0])
    with pytest.raises(DataError, match="image_size must be None for"):
        load(tmp_path / "a.npz", image_size=(4, 4))


def test_describe(tmp_path):
    folder = tmp_path / "MNIST" / "raw"
    empty = np.zeros((1, 28, 28))
    write_mnist(folder, (empty, [0]), (empty, [0]))  # found, but not read
    rows = {row.name: row for row in describe(tmp_path)}
    assert rows["digits"] == DatasetRow("digits", True, None, 10, (1, 8, 8), 1797, 0, 0, "https://scikit-learn.org")
    page = "http://yann.lecun.com/exdb/mnist/"
    assert rows["mnist"] == DatasetRow("mnist", True, folder, 10, (1, 28, 28), 60_000, 10_000, 11_594_722, page)
    assert rows["cifar100"][:4] == ("cifar100", False, tmp_path / "cifar-100-binary", 100)
    assert rows["k49"].download_bytes is None
    assert not rows["tiny-imagenet"].present


def test_describe_python_version(tmp_path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    for name in ("train", "test", "meta"):
        (folder / name).touch()
    row = describe(tmp_path)[4]
    assert (row.name, row.present, row.folder) == ("cifar100", True, folder)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", ["public", "npz", "folder"])
def test_first_images_of_each_class(kind, count, tmp_path):
    """A colon and a number keep the first training images of each class, of every source."""
    source = "digits"
    if kind == "npz":
        source = tmp_path / "own.npz"
        np.savez(source, x=np.arange(6 * 64, dtype=np.uint8).reshape(6, 8, 8), y=[1, 0, 1, 1, 0, 0])
    elif kind == "folder":
        source = tmp_path / "own"
        for number in range(6):
            place = source / f"class{number % 2}"
            place.mkdir(parents=True, exist_ok=True)
            plain_image(number).save(place / f"{number}.png")
    whole, part = load(source), load(f"{source}:{count}")
    assert part.name == f"{whole.name}:{count}"
    assert np.bincount(part.train.labels).tolist() == [count] * len(whole.class_names)
    for label in range(len(whole.class_names)):
        first = whole.train.images[whole.train.labels == label][:count]
        np.testing.assert_array_equal(part.train.images[part.train.labels == label], first)
    n = len(whole.class_names)
    assert part.notes[-1] == f"training images: the first {count} of each class, {count * n} of {len(whole.train):,}"


def test_a_split_keeps_the_test_images(tmp_path):
    np.savez(tmp_path / "own.npz", x=np.zeros((6, 4, 4)), y=[0, 1] * 3, x_test=np.ones((5, 4, 4)), y_test=[0] * 5)
    part = load(f"{tmp_path / 'own.npz'}:2")
    assert (len(part.train), len(part.test)) == (4, 5)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("digits:0", "per class must be at least 1, got 'digits:0'"),
        ("digits:-5", "per class must be at least 1, got 'digits:-5'"),
        ("digits:abc", "per class must be at least 1, got 'digits:abc'"),
        ("digits:", "per class must be at least 1, got 'digits:'"),
        ("digit:50", "got 'digit', which does not exist. Did you mean 'digits'"),
        ("digits:184", "images per class must be between 1 and 183, got 184"),
    ],
)
def test_wrong_split(source, message):
    with pytest.raises(DataError, match=message):
        load(source)


def test_a_colon_in_a_path_is_no_split(tmp_path):
    np.savez(tmp_path / "a:3.npz", x=np.zeros((4, 2, 2)), y=[0, 0, 1, 1])
    (tmp_path / "a:3.npz").rename(tmp_path / "a:3")
    with pytest.raises(DataError, match=r"a:3 must be a folder of images or a \.npz file"):
        load(str(tmp_path / "a:3"))
    with pytest.raises(DataError, match="does not exist"):
        load(str(tmp_path / "b:3" / "own.npz"))


def test_images_too_small_to_train_on(tmp_path):
    for side in (3, 4):
        np.savez(tmp_path / "a.npz", x=np.zeros((4, 9, side), np.uint8), y=[0, 0, 1, 1])
        too_small = pytest.raises(
            DataError, match=r"images of a must have at least 4×4 pixels, got 9×3\. Use larger images\."
        )
        with too_small if side == 3 else nullcontext():
            load_to_train(tmp_path / "a.npz")


def test_import_is_light():
    """Importing rescnet.data does not import Pillow, scikit-learn or torch."""
    code = (
        "import sys, types, importlib.util as util;"
        "package = types.ModuleType('rescnet');"
        f"package.__path__ = [{str(Path(sys.modules['rescnet.data'].__file__).parent.parent)!r}];"
        "sys.modules['rescnet'] = package; import rescnet.data;"
        "assert not {'PIL', 'sklearn', 'torch'} & set(sys.modules), 'imported too much'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
