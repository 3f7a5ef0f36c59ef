"""Writers of small files in the exact formats of the public data sets."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image


def write_idx(path: Path, array: np.ndarray) -> None:
    """Write 0, 0, 8 (unsigned bytes), number of axes, axes, bytes, big-endian. Gzipped if the name ends in .gz."""
    array = np.asarray(array)
    content = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_mnist(folder: Path, train: tuple, test: tuple, ending: str = ".gz") -> None:
    for prefix, (images, labels) in (("train", train), ("t10k", test)):
        write_idx(folder / f"{prefix}-images-idx3-ubyte{ending}", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte{ending}", labels)


def cifar_record(labels: tuple[int, ...], image: np.ndarray) -> bytes:
    """Return the labels, one byte each, then the rows of each channel. `image` has shape (h, w, 3)."""
    pixels = bytes(int(image[y, x, c]) for c in range(3) for y in range(image.shape[0]) for x in range(image.shape[1]))
    return bytes(labels) + pixels


def python2_pickle(value: object) -> bytes:
    """Pickle like Python 2's cPickle with protocol 2: byte strings, and NumPy arrays of that time."""
    return b"\x80\x02" + _python2(value) + b"."


def _python2(value: object) -> bytes:
    if isinstance(value, dict):
        return b"}(" + b"".join(_python2(part) for item in value.items() for part in item) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(_python2, value)) + b"e"
    if isinstance(value, str):
        value = value.encode("latin-1")
    if isinstance(value, bytes):
        short = len(value) < 256
        return (b"U" + struct.pack("<B", len(value)) if short else b"T" + struct.pack("<i", len(value))) + value
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    assert isinstance(value, np.ndarray)
    code = value.dtype.str[1:]
    dtype = b"cnumpy\ndtype\n" + _python2(code) + b"K\x00K\x01\x87R(K\x03U\x01|NNN" + _python2(-1) * 2 + b"K\x00tb"
    shape = b"(" + b"".join(map(_python2, value.shape)) + b"t"
    begun = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return begun + b"(K\x01" + shape + dtype + b"\x89" + _python2(value.tobytes()) + b"tb"


def write_tiny_imagenet(folder: Path, train: dict[str, list], validation: list[tuple[str, object]]) -> None:
    """Write a list of Pillow images per wnid (`train`) and pairs of wnid and image (`validation`)."""
    for wnid, images in train.items():
        (folder / "train" / wnid / "images").mkdir(parents=True)
        for number, image in enumerate(images):
            image.save(folder / "train" / wnid / "images" / f"{wnid}_{number}.JPEG", quality=95)
        (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text(f"{wnid}_0.JPEG\t0\t0\t9\t9\n")
    (folder / "val" / "images").mkdir(parents=True)
    lines = []
    for number, (wnid, image) in enumerate(validation):
        image.save(folder / "val" / "images" / f"val_{number}.JPEG", quality=95)
        lines.append(f"val_{number}.JPEG\t{wnid}\t0\t32\t44\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    (folder / "wnids.txt").write_text("".join(f"{wnid}\n" for wnid in train))


def plain_image(colour: tuple[int, int, int] | int, size: tuple[int, int] = (64, 64)) -> Image:
    """Return an image of one colour or one grey; `size` is (width, height)."""
    import PIL.Image

    return PIL.Image.new("L" if isinstance(colour, int) else "RGB", size, colour)
