"""MNIST's own format, idx: a big-endian header and the bytes; MNIST and Fashion-MNIST, plain or gzipped."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .archives import Layout, PublicSet
from .errors import DataError
from .image_set import Dataset, ImageSet

_IMAGES_MAGIC = 0x0803  # unsigned bytes, three axes
_LABELS_MAGIC = 0x0801  # unsigned bytes, one axis


def read_idx_set(public_set: PublicSet, layout: Layout, root: Path) -> Dataset:
    """Read the four idx files of MNIST or Fashion-MNIST.

    Parameters
    ----------
    public_set : PublicSet
        What the files must hold: how many images, of which shape, of how many classes.
    layout : Layout
        Which files; each is read plain if it is there so, else gzipped.
    root : Path
        The folder `layout.folder` is relative to.
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
    refuse_labels_out_of_range(labels_path, labels, public_set.classes)
    return ImageSet(images, labels.astype(np.int64), public_set.class_names or ())


def _read_idx(path: Path, magic: int, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Read one idx file that must have this magic number and shape."""
    if not path.exists():
        path = path.with_name(path.name + ".gz")
    header = struct.calcsize(f">{1 + len(shape)}I")
    expected = header + int(np.prod(shape))
    content = _read_bytes(path, expected + 1)
    if len(content) < header:
        raise DataError(f"{path} ends within its header, after {len(content)} bytes: fetch it again.")
    found_magic, *found_shape = struct.unpack_from(f">{1 + len(shape)}I", content)
    if found_magic != magic:
        raise DataError(
            f"{path} starts with {found_magic:#010x}, not the magic number {magic:#010x}: "
            "it is not that idx file; fetch it again."
        )
    if tuple(found_shape) != shape:
        raise DataError(f"{path} says it has shape {tuple(found_shape)} but {shape} was expected: wrong file.")
    if len(content) != expected:
        found = f"only {len(content):,}" if len(content) < expected else "more"
        raise DataError(f"{path} should hold {expected:,} bytes but holds {found}: fetch it again.")
    # A copy, because an array over bytes cannot be written to.
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()


def _read_bytes(path: Path, limit: int) -> bytes:
    """Read at most `limit` bytes: whatever a file says, no more is unpacked than could be right."""
    if path.suffix != ".gz":
        with path.open("rb") as file:
            return file.read(limit)
    try:
        with gzip.open(path) as file:
            return file.read(limit)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} is not a whole gzip file ({error}): fetch it again.") from error


def refuse_labels_out_of_range(path: Path, labels: npt.NDArray[np.integer], classes: int) -> None:
    """Refuse labels outside 0..classes-1, naming the file and the first such label."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        first = int(wrong[0])
        raise DataError(
            f"{path} has the label {int(labels[first])} at image {first}, outside 0..{classes - 1}: "
            "the file is damaged or another set's; fetch it again."
        )
