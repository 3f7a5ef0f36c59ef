from __future__ import annotations

import io
import re
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescnet import DataError
from rescnet.data import load

RANDOM = np.random.default_rng(2)
IMAGES = RANDOM.integers(0, 256, (5, 3, 8, 6), np.uint8)
LABELS = np.array([4, -2, 4, 10, -2])


@pytest.fixture
def store(tmp_path):
    def savez(**arrays):
        np.savez(tmp_path / "own.npz", **arrays)
        return tmp_path / "own.npz"

    return savez


@pytest.mark.parametrize(("x", "y"), [("images", "labels"), ("x", "y"), ("x_train", "y_train"), ("X", "y")])
def test_array_names(store, x, y):
    dataset = load(store(**{x: IMAGES, y: LABELS}))
    assert dataset.name == "own"
    np.testing.assert_array_equal(dataset.train.images, IMAGES)
    np.testing.assert_array_equal(dataset.train.labels, [1, 0, 1, 2, 0])
    assert dataset.class_names == ("-2", "4", "10")
    assert dataset.validation is None and dataset.test is None


def test_layouts(store):
    np.testing.assert_array_equal(load(store(x=IMAGES.transpose(0, 2, 3, 1), y=LABELS)).train.images, IMAGES)
    np.testing.assert_array_equal(load(store(x=IMAGES[:, 0], y=LABELS)).train.images, IMAGES[:, :1])
    np.testing.assert_array_equal(load(store(x=IMAGES[:, 0, ..., None], y=LABELS)).train.images, IMAGES[:, :1])
    np.testing.assert_array_equal(load(store(x=IMAGES[:, :1], y=LABELS)).train.images, IMAGES[:, :1])
    assert load(store(x=IMAGES.transpose(0, 2, 3, 1), y=LABELS)).train.images.flags.c_contiguous


def test_ambiguous_channels_come_last(store):
    both = RANDOM.integers(0, 256, (5, 3, 7, 3), np.uint8)
    np.testing.assert_array_equal(load(store(x=both, y=LABELS)).train.images, both.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("count", [2**50, 4])
def test_header_with_wrong_size(store, count):
    file = store(y=LABELS)
    claimed = io.BytesIO()
    np.lib.format.write_array_header_1_0(claimed, {"descr": "|u1", "fortran_order": False, "shape": (count, 3, 8, 6)})
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("x.npy", claimed.getvalue() + IMAGES.tobytes())
    with pytest.raises(DataError, match=rf"own.npz: x of shape \({count}, 3, 8, 6\) must have .* bytes, got 720"):
        load(file)


def test_out_of_memory(store, monkeypatch):
    def full(*_, **__):
        raise MemoryError("Unable to allocate 2 TiB")

    monkeypatch.setattr(np.lib.format, "read_array", full)
    with pytest.raises(MemoryError, match=r"own\.npz does not fit into memory"):
        load(store(x=IMAGES, y=LABELS))


@pytest.mark.parametrize("shape", [(5, 8, 6, 4), (5, 8, 6, 2), (5, 8), (5, 1, 1, 8, 6)])
def test_wrong_shapes(store, shape):
    with pytest.raises(DataError, match=r"x must have shape \(n, h, w\), .*, got \(5, ") as caught:
        load(store(x=np.zeros(shape, np.uint8), y=LABELS))
    if len(shape) == 4:
        assert f"read as channels last with {shape[3]} channels" in str(caught.value)


def test_pixel_types(store):
    floats = load(store(x=IMAGES / 255.0, y=LABELS)).train.images
    assert floats.dtype == np.float32
    np.testing.assert_array_equal(floats, (IMAGES / 255.0).astype(np.float32))
    wide = load(store(x=IMAGES.astype(np.int64), y=LABELS)).train.images
    assert wide.dtype == np.uint8
    np.testing.assert_array_equal(wide, IMAGES)
    np.testing.assert_array_equal(load(store(x=IMAGES > 9, y=LABELS)).train.images, np.where(IMAGES > 9, 255, 0))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.arange(240, dtype=np.int32).reshape(5, 8, 6) - 1, "got int32 from -1 to 238"),
        (np.arange(240, dtype=np.int32).reshape(5, 8, 6) + 17, "got int32 from 17 to 256"),
        (np.where(IMAGES > 9, np.nan, 0), "must be finite in float32"),
        (IMAGES * 1e300, "must be finite in float32"),
        (IMAGES * 1j, "got complex128"),
        (IMAGES.astype(str), "got <U3"),
    ],
)
def test_wrong_pixels(store, x, message):
    with pytest.raises(DataError, match=message):
        load(store(x=x, y=LABELS))


def test_labels_as_text(store):
    words = np.array(["dog", "cat", "dog", "élan", "cat"])
    dataset = load(store(x=IMAGES, y=words))
    assert dataset.class_names == ("cat", "dog", "élan")
    np.testing.assert_array_equal(dataset.train.labels, [1, 0, 1, 2, 0])
    stored_as_bytes = load(store(x=IMAGES, y=np.char.encode(words, "utf-8")))
    assert stored_as_bytes.class_names == dataset.class_names


def test_class_names(store):
    dataset = load(store(x=IMAGES, y=np.array([2, 0, 2, 0, 0], np.uint8), class_names=np.array(["z", "m", "a"])))
    assert dataset.class_names == ("z", "m", "a")
    np.testing.assert_array_equal(dataset.train.labels, [2, 0, 2, 0, 0])
    dataset = load(store(x=IMAGES, y=np.array(list("azzam")), class_names=np.array(["z", "m", "a"])))
    np.testing.assert_array_equal(dataset.train.labels, [2, 0, 0, 2, 1])


def test_splits_have_the_training_classes(store):
    dataset = load(
        store(x=IMAGES, y=LABELS, x_val=IMAGES[:1], y_val=[10], x_test=IMAGES[3:], y_test=np.array([[-2], [4]]))
    )
    np.testing.assert_array_equal(dataset.validation.labels, [2])
    np.testing.assert_array_equal(dataset.test.labels, [0, 1])
    np.testing.assert_array_equal(dataset.test.images, IMAGES[3:])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": IMAGES}, "must have exactly one of labels, y, y_train, got x"),
        ({"x": IMAGES, "images": IMAGES, "y": LABELS}, "must have exactly one of images, x, x_train, got images and x"),
        ({"x": IMAGES, "y": LABELS, "x_test": IMAGES}, "both or neither of x_test and y_test, got one"),
        ({"x": IMAGES, "y": LABELS, "y_val": LABELS}, "both or neither of x_val and y_val, got one"),
        ({"x": IMAGES, "y": LABELS[:4]}, "one label per image, got 5 images in x and 4 labels in y"),
        ({"x": IMAGES[:0], "y": LABELS[:0]}, "must have at least one image in x, got none"),
        ({"x": IMAGES, "y": LABELS, "x_test": IMAGES[:, :1], "y_test": LABELS}, "test images must have the shape"),
        (
            {"x": IMAGES, "y": LABELS, "x_test": IMAGES, "y_test": LABELS + 1},
            "y_test must have .*, got -1",
        ),
        ({"x": IMAGES, "y": LABELS / 2}, "y must be integers or strings, got float64"),
        ({"x": IMAGES, "y": np.eye(5, dtype=int)}, "argmax of one-hot"),
        ({"x": IMAGES, "y": LABELS, "class_names": ["a", "b"]}, "must have labels of the 2 classes 0, 1, got -2"),
        ({"x": IMAGES, "y": LABELS, "class_names": ["a", "a"]}, "the same name twice"),
        ({"x": IMAGES, "y": LABELS, "z": LABELS}, "array names must be of images, .*, got 'z'"),
        ({"x": np.array([{}] * 2), "y": [0, 1]}, r"x must .* got Python objects\. Give all images one size"),
        ({"x": IMAGES, "X": IMAGES, "y": LABELS}, "must differ in more than case, got x, X, y"),
    ],
)
def test_wrong_arrays(store, arrays, message):
    with pytest.raises(DataError, match=message):
        load(store(**arrays))


def test_pickled_arrays_are_refused(tmp_path):
    class Runs:
        def __reduce__(self):
            return (tmp_path / "trace").mkdir, ()

    np.savez(tmp_path / "own.npz", x=IMAGES, y=np.array([Runs()] * 5, object))
    with pytest.raises(
        DataError, match=r"own\.npz: y must be numbers or text, got Python objects\. Use y\.astype\(str\)"
    ):
        load(tmp_path / "own.npz")
    assert not (tmp_path / "trace").exists()


def test_not_an_npz_file(tmp_path):
    path = tmp_path / "own.npz"
    for content, message in (
        (b"", "must be a .npz file, got another format"),
        (b"hello", "must be a .npz file, got another format"),
        (b"PK\x03\x04 and no more", "cannot be read as a .npz file"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"own\.npz {re.escape(message)}"):
            load(path)
    with path.open("wb") as file:
        np.save(file, IMAGES)
    with pytest.raises(DataError, match="got a single array"):
        load(path)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels=st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=8))
def test_labels_index_class_names(store, labels):
    dataset = load(store(x=np.zeros((len(labels), 2, 2), np.uint8), y=np.array(labels, np.int64)))
    assert [int(dataset.class_names[label]) for label in dataset.train.labels] == labels
    assert list(map(int, dataset.class_names)) == sorted(set(labels))


@pytest.mark.parametrize("lost", ["x_train", "test", "class_names"])
def test_an_array_that_the_directory_has_lost_is_noticed(tmp_path, lost):
    images, labels = np.zeros((6, 8, 8), np.uint8), np.arange(6) % 3
    path = tmp_path / "a.npz"
    np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels, class_names=np.array(["a", "b", "c"]))
    with zipfile.ZipFile(path, "a") as packed:
        packed.filelist = [member for member in packed.filelist if lost not in member.filename]
        packed.comment = b"a new directory"
    with pytest.raises(DataError, match="bytes that belong to no array"):
        load(str(path))
