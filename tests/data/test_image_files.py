from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from data.official_files import plain_image

from rescnet.data import DataError, load

Image = pytest.importorskip("PIL.Image")

RANDOM = np.random.default_rng(1)


def save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def grey(h: int = 6, w: int = 9) -> np.ndarray:
    return RANDOM.integers(0, 256, (h, w), np.uint8)


def colour(h: int = 6, w: int = 9) -> np.ndarray:
    return RANDOM.integers(0, 256, (h, w, 3), np.uint8)


def test_classes_and_files_are_sorted(tmp_path):
    pixels = {name: colour() for name in ("b/2.png", "b/10.png", "a/x.bmp", "c/y.ppm")}
    for name, image in pixels.items():
        save(tmp_path / "pets" / name, image)
    dataset = load(tmp_path / "pets")
    assert dataset.name == "pets"
    assert dataset.class_names == ("a", "b", "c")
    assert dataset.validation is None and dataset.test is None
    np.testing.assert_array_equal(dataset.train.labels, [0, 1, 1, 2])
    for image, name in zip(dataset.train.images, ("a/x.bmp", "b/10.png", "b/2.png", "c/y.ppm"), strict=True):
        np.testing.assert_array_equal(image, pixels[name].transpose(2, 0, 1))


def test_order_with_threads(tmp_path):
    for number in range(300):
        save(tmp_path / str(number % 3) / f"{number:03}.png", np.full((2, 2), number % 256, np.uint8))
    train = load(tmp_path).train
    expected = [number % 256 for label in range(3) for number in range(label, 300, 3)]
    np.testing.assert_array_equal(train.images[:, 0, 0, 0], expected)


def test_path_as_string(tmp_path, monkeypatch):
    save(tmp_path / "mnist" / "a" / "1.png", grey())
    monkeypatch.chdir(tmp_path)
    assert load("./mnist").class_names == ("a",)


def test_grey_images(tmp_path):
    first, second = grey(), grey() > 100
    deep = RANDOM.integers(0, 65536, (6, 9), np.uint16)
    deep[0, :3] = 0, 65535, 257 * 100
    save(tmp_path / "a" / "1.png", first)
    save(tmp_path / "a" / "2.png", second)
    save(tmp_path / "b" / "3.png", deep)
    save(tmp_path / "b" / "4.tif", deep)
    with Image.open(tmp_path / "a" / "2.png") as bilevel:
        assert bilevel.mode == "1"
    images = load(tmp_path).train.images
    assert images.shape == (4, 1, 6, 9)
    np.testing.assert_array_equal(images[0, 0], first)
    np.testing.assert_array_equal(images[1, 0], np.where(second, 255, 0))
    np.testing.assert_array_equal(images[2, 0], np.rint(deep / 257))
    np.testing.assert_array_equal(images[3], images[2])
    np.testing.assert_array_equal(images[2, 0, 0, :3], [0, 255, 100])


def test_mixed_grey_and_colour(tmp_path):
    save(tmp_path / "train" / "a" / "1.png", grey())
    save(tmp_path / "test" / "a" / "2.png", colour())  # another split
    with pytest.raises(DataError, match=r"must be all grey or all colour, got .*1\.png in grey and .*2\.png in colour"):
        load(tmp_path)
    save(tmp_path / "train" / "a" / "3.png", grey())
    with pytest.raises(DataError, match=r"1\.png and 1 more in grey and .*2\.png in colour"):
        load(tmp_path)


def test_transparency_is_dropped(tmp_path):
    pixels = np.dstack([colour(), np.zeros((6, 9), np.uint8)])
    save(tmp_path / "a" / "1.png", pixels)
    palette = Image.fromarray(colour()).quantize(16)
    palette.save(tmp_path / "a" / "2.png", transparency=bytes(range(16)))
    images = load(tmp_path).train.images
    np.testing.assert_array_equal(images[0], pixels[..., :3].transpose(2, 0, 1))
    np.testing.assert_array_equal(images[1], np.asarray(palette.convert("RGB")).transpose(2, 0, 1))


def test_exif_orientation(tmp_path):
    (tmp_path / "a").mkdir()
    upright = plain_image((200, 0, 0), (16, 32))
    upright.paste((0, 0, 200), (0, 0, 16, 8))  # a blue sky
    upright.save(tmp_path / "a" / "1.jpg", quality=95)
    lying = upright.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate clockwise to view it
    lying.save(tmp_path / "a" / "2.jpg", quality=95, exif=exif)
    images = load(tmp_path).train.images.astype(int)
    assert images.shape == (2, 3, 32, 16)
    assert np.abs(images[0] - images[1]).max() < 30


def test_splits(tmp_path):
    for split in ("train", "val", "test"):
        for name in ("cat", "dog"):
            save(tmp_path / split / name / "1.png", np.full((4, 4), len(split + name), np.uint8))
    save(tmp_path / "train" / "dog" / "2.png", np.zeros((4, 4), np.uint8))
    dataset = load(tmp_path)
    np.testing.assert_array_equal(dataset.train.labels, [0, 1, 1])
    assert dataset.validation.images[0, 0, 0, 0] == 6
    assert dataset.test.images[0, 0, 0, 0] == 7
    (tmp_path / "val").rename(tmp_path / "validation")
    assert len(load(tmp_path).validation) == 2


def test_train_as_a_class(tmp_path):
    for name in ("bus", "test", "train"):
        save(tmp_path / name / "1.png", grey())
    assert load(tmp_path).class_names == ("bus", "test", "train")


def test_hidden_files(tmp_path):
    save(tmp_path / "a" / "1.png", grey())
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (tmp_path / "a" / name).write_bytes(b"\0")
    (tmp_path / ".git").mkdir()
    assert len(load(tmp_path).train) == 1


def test_different_sizes(tmp_path):
    save(tmp_path / "a" / "1.png", grey(6, 9))
    save(tmp_path / "b" / "2.png", grey(9, 6))
    with pytest.raises(
        DataError, match=r"got 6×9 for .*1\.png and 9×6 for .*2\.png\. Resize them with image_size \(--image-size\)"
    ):
        load(tmp_path)


def test_resizing(tmp_path):
    tall, flat = colour(12, 6), colour(5, 9)
    save(tmp_path / "a" / "1.png", tall)
    save(tmp_path / "b" / "2.png", flat)
    images = load(tmp_path, image_size=(4, 7)).train.images
    assert images.shape == (2, 3, 4, 7)
    expected = Image.fromarray(tall).resize((7, 4), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(images[0], np.asarray(expected).transpose(2, 0, 1))


@pytest.mark.parametrize("size", [(0, 3), (3,), (4, -1)])
def test_wrong_image_size(tmp_path, size):
    save(tmp_path / "a" / "1.png", grey())
    with pytest.raises(DataError, match="image_size must be two positive numbers"):
        load(tmp_path, image_size=size)


def test_empty_class(tmp_path):
    save(tmp_path / "a" / "1.png", grey())
    (tmp_path / "b").mkdir()
    with pytest.raises(DataError, match=r"b has no images"):
        load(tmp_path)


def test_no_classes(tmp_path):
    save(tmp_path / "1.png", grey())
    with pytest.raises(DataError, match="must have one sub-folder of images per class, got none"):
        load(tmp_path)


def test_nested_folder(tmp_path):
    save(tmp_path / "pets" / "train" / "cat" / "1.png", grey())
    with pytest.raises(DataError, match=r"train must be an image, got a folder"):
        load(tmp_path)


def test_splits_with_different_classes(tmp_path):
    for name in ("train/a", "train/b", "test/a"):
        save(tmp_path / name / "1.png", grey())
    with pytest.raises(DataError, match="same class folders, got 'b' in only one of train and test"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("val", "validation", "train"), "must have one of val and validation, got both"),
        (("test",), "must have a train folder, got only test"),
    ],
)
def test_wrong_splits(tmp_path, names, message):
    for name in names:
        save(tmp_path / name / "a" / "1.png", grey())
    with pytest.raises(DataError, match=message):
        load(tmp_path)


def test_not_an_image(tmp_path):
    save(tmp_path / "a" / "1.png", grey())
    (tmp_path / "a" / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match=r"notes\.txt must be an image \(PNG, .*\), got another format"):
        load(tmp_path)


def test_postscript_is_refused(tmp_path):
    """Pillow runs Ghostscript to read EPS."""
    (tmp_path / "a").mkdir()
    plain_image((1, 2, 3), (4, 4)).save(tmp_path / "a" / "1.eps")
    with pytest.raises(DataError, match=r"1\.eps must be an image \(PNG, .*\), got another format"):
        load(tmp_path)


def test_truncated_image(tmp_path):
    save(tmp_path / "a" / "1.png", colour(40, 40))
    path = tmp_path / "a" / "1.png"
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(DataError, match=r"1\.png cannot be read as an image"):
        load(tmp_path)


@pytest.mark.parametrize("limit", [50, 20])  # Pillow warns above its limit and refuses above twice its limit
def test_decompression_bomb(tmp_path, monkeypatch, limit):
    save(tmp_path / "a" / "1.png", grey(8, 8))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(DataError, match=rf"1\.png must have at most {limit} pixels, Pillow's limit"):
        load(tmp_path)


def test_floating_point_pixels(tmp_path):
    save(tmp_path / "a" / "1.tif", np.ones((3, 3), np.float32))
    with pytest.raises(DataError, match="floating-point pixels"):
        load(tmp_path)


def test_without_pillow(tmp_path, monkeypatch):
    save(tmp_path / "a" / "1.png", grey())
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r"pip install rescnet\[images\]"):
        load(tmp_path)
