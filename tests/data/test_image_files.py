from __future__ import annotations

import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from data.official_files import plain_image

from rescnet import DataError
from rescnet.data import load
from rescnet.data.image_files import read_headers, read_images

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")

RANDOM = np.random.default_rng(1)


def save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def grey(h: int = 6, w: int = 9) -> np.ndarray:
    return RANDOM.integers(0, 256, (h, w), np.uint8)


def colour(h: int = 6, w: int = 9) -> np.ndarray:
    return RANDOM.integers(0, 256, (h, w, 3), np.uint8)


@pytest.mark.slow
def test_processes_read_what_threads_read(tmp_path, monkeypatch):
    paths = [tmp_path / f"{number:03}.png" for number in range(300)]
    for number, path in enumerate(paths):
        plain_image((number % 256, 7, number // 256), (5, 6)).save(path)
    paths[130].write_bytes(b"no image")
    errors, same_errors = {}, {}
    images = read_images(paths, 3, (6, 5), errors=errors)
    headers = read_headers(paths)
    monkeypatch.setattr("rescnet.data.image_files._MANY_FILES", 300)
    counts = []
    again = read_images(paths, 3, (6, 5), progress=lambda *done: counts.append(done), errors=same_errors)
    np.testing.assert_array_equal(again, images)
    assert len(images) == 299 and images[298, :, 0, 0].tolist() == [43, 7, 1]
    assert list(same_errors) == list(errors) == [paths[130]]
    assert str(same_errors[paths[130]]) == str(errors[paths[130]])
    assert counts == [(128, 300), (256, 300), (300, 300)]
    assert [str(header) for header in read_headers(paths)] == [str(header) for header in headers]


def test_order_with_threads(tmp_path):
    for number in range(300):
        save(tmp_path / str(number % 3) / f"{number:03}.png", np.full((2, 2), number % 256, np.uint8))
    train = load(tmp_path).train
    expected = [number % 256 for label in range(3) for number in range(label, 300, 3)]
    np.testing.assert_array_equal(train.images[:, 0, 0, 0], expected)


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


def test_resizing(tmp_path):
    tall, flat = colour(12, 6), colour(5, 9)
    save(tmp_path / "a" / "1.png", tall)
    save(tmp_path / "b" / "2.png", flat)
    images = load(tmp_path, image_size=(4, 4)).train.images
    assert images.shape == (2, 3, 4, 4)
    centre = Image.fromarray(tall).resize((4, 4), Image.Resampling.BICUBIC, box=(0, 3, 6, 9))
    np.testing.assert_array_equal(images[0], np.asarray(centre).transpose(2, 0, 1))


def test_large_photographs_are_decoded_at_a_smaller_size(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    smooth = Image.fromarray(colour(4, 4)).resize((1600, 1200), Image.Resampling.BICUBIC)
    smooth.save(tmp_path / "a" / "1.jpg", quality=95)
    decoded, fit = [], ImageOps.fit
    monkeypatch.setattr(ImageOps, "fit", lambda image, *more: decoded.append(image.size) or fit(image, *more))
    image = load(tmp_path, image_size=(48, 64)).train.images[0]
    assert decoded == [(200, 150)]  # an eighth
    exact = np.asarray(smooth.resize((64, 48), Image.Resampling.BICUBIC)).transpose(2, 0, 1)
    assert np.abs(image.astype(int) - exact).mean() < 2


def test_postscript_is_refused(tmp_path):
    """Pillow runs Ghostscript to read EPS."""
    (tmp_path / "a").mkdir()
    plain_image((1, 2, 3), (4, 4)).save(tmp_path / "a" / "1.eps")
    with pytest.raises(DataError, match=r"1\.eps must be an image \(PNG, .*\), got another format"):
        load(tmp_path)


@pytest.mark.parametrize("limit", [50, 20])  # Pillow warns above its limit and refuses above twice its limit
def test_decompression_bomb(tmp_path, monkeypatch, limit):
    save(tmp_path / "a" / "1.png", grey(8, 8))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    for action in ("error", "ignore"):
        warnings.simplefilter(action)
        with pytest.raises(DataError, match=rf"1\.png must have at most {limit} pixels, Pillow's limit"):
            load(tmp_path)


def test_damaged_metadata_is_no_problem(tmp_path):
    """Pillow warns of it, and warnings are errors here."""
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "1.jpg"
    plain_image((1, 2, 3), (8, 8)).save(file, exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff")
    with pytest.warns(UserWarning, match="EXIF"), Image.open(file) as image:
        image.getexif()
    assert load(tmp_path, strict=True).shape == (3, 8, 8)


def test_other_warnings_are_heard_after_reading_in_threads(tmp_path):
    """The first thread ends after the second one began, and before it ends."""
    save(tmp_path / "1.png", grey())
    second_began, first_ended = threading.Event(), threading.Event()

    def read(progress):
        read_images([tmp_path / "1.png"], 1, (6, 9), progress=progress)

    first = threading.Thread(target=read, args=[lambda *_: second_began.wait(20)])
    second = threading.Thread(target=read, args=[lambda *_: (second_began.set(), first_ended.wait(20))])
    for thread in (first, second):
        thread.start()
    first.join()
    first_ended.set()
    second.join()
    with pytest.raises(UserWarning, match="of the caller"):
        warnings.warn("of the caller", stacklevel=1)


def test_floating_point_pixels(tmp_path):
    save(tmp_path / "a" / "1.tif", np.ones((3, 3), np.float32))
    with pytest.raises(DataError, match="floating-point pixels"):
        load(tmp_path)


def test_without_pillow(tmp_path, monkeypatch):
    save(tmp_path / "a" / "1.png", grey())
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match="pip install pillow"):
        load(tmp_path)
