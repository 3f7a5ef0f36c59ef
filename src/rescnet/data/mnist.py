"""MNIST and Fashion-MNIST in the idx format: a big-endian header, then the bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .archives import Layout, PublicSet
from .image_set import DataError, Dataset, ImageSet

_IMAGES_MAGIC = 0x0803  # unsigned bytes, three axes
_LABELS_MAGIC = 0x0801  # unsigned bytes, one axis


def read_idx_set(public_set: PublicSet, layout: Layout, root: Path) -> Dataset:
    """Read the four idx files of MNIST or Fashion-MNIST.

    Parameters
    ----------
    public_set : PublicSet
        Expected number of images, image shape and number of classes.
    layout : Layout
        The files. A plain file is preferred to a gzipped one.
    root : Path
        Folder that `layout.folder` is relative to.
    """
    folder = root / layout.folder
    train_images, train_labels = layout.train
    test_images, test_labels = layout.test
    return Dataset(
        public_set.name,
        train=_read_split(public_set, folder / train_images, folder / train_labels, public_set.n_train),
        test=_read_split(public_set, folder / test_images, folder / test_labels, public_set.n_test),
    )


def _read_split(public_set: PublicSet, images_path: Path, labels_path: Path, n: int) -> ImageSet:
    c, h, w = public_set.shape
    images = _read_idx(images_path, _IMAGES_MAGIC, (n, h, w)).reshape(n, c, h, w)
    labels = _read_idx(labels_path, _LABELS_MAGIC, (n,))
    check_labels(labels_path, labels, public_set.classes)
    return ImageSet(images, labels.astype(np.int64), public_set.class_names or ())


def _read_idx(path: Path, magic: int, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Read one idx file, which must have this magic number and shape."""
    if not path.exists():
        path = path.with_name(path.name + ".gz")
    header = struct.calcsize(f">{1 + len(shape)}I")
    expected = header + int(np.prod(shape))
    content = _read_bytes(path, expected + 1)
    if len(content) < header:
        raise DataError(f"{path} must have a header of {header} bytes, got {len(content)}. Download it again.")
    found_magic, *found_shape = struct.unpack_from(f">{1 + len(shape)}I", content)
    if found_magic != magic:
        raise DataError(
            f"{path} must start with the magic number {magic:#010x}, got {found_magic:#010x}. Download it again."
        )
    if tuple(found_shape) != shape:
        raise DataError(f"{path} must have shape {shape}, got {tuple(found_shape)}. Download it again.")
    if len(content) != expected:
        found = f"{len(content):,}" if len(content) < expected else "more"
        raise DataError(f"{path} must have {expected:,} bytes, got {found}. Download it again.")
    # A copy, because an array over bytes is read-only.
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()


def _read_bytes(path: Path, limit: int) -> bytes:
    """Read at most `limit` bytes, so that a forged file cannot fill the memory."""
    if path.suffix != ".gz":
        with path.open("rb") as file:
            return file.read(limit)
    try:
        with gzip.open(path) as file:
            return file.read(limit)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} is not a complete gzip file ({error}). Download it again.") from error


def check_labels(path: Path, labels: npt.NDArray[np.integer], classes: int) -> None:
    """Refuse labels outside 0..classes-1; the error names the file and the first such label."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        first = int(wrong[0])
        raise DataError(
            f"{path} must have labels in 0..{classes - 1}, got {int(labels[first])} at image {first}. "
            "Download it again."
        )
