"""Readers of the public data sets in their authors' files.

MNIST and its relatives are idx files: a big-endian header, then the bytes; plain or gzipped. CIFAR has a binary and a
Python version. Both store an image as 3072 bytes: the red, green and blue plane, each row by row from the top. STL-10
has the same planes column by column, K49 NumPy's arrays, and SVHN MATLAB's.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError
from ..base.files import open_regular
from .archives import Layout, PublicSet
from .cifar_pickle import list_of, pixels_of, read_values
from .fetch import check_md5
from .image_set import Dataset, ImageSet
from .npz import load_arrays

_MAGIC = 0x0800  # unsigned bytes; the last digit is the number of axes
_LONGEST_TEXT = 2**24  # bytes; the longest file has 2.7 million

Batch = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""Pixels of n images and labels (n,)."""


def text_lines(path: Path) -> list[str]:
    """Return the lines of a text file that are not empty."""
    with open_regular(path) as file:
        text = file.read(_LONGEST_TEXT).decode(errors="replace")
    return [line for line in text.splitlines() if line.strip()]


def read_public_set(public_set: PublicSet, layout: Layout, root: Path) -> Dataset:
    """Read a public data set in any layout but TinyImageNet's."""
    folder = root / layout.folder
    names = public_set.class_names or _read_names(public_set, layout, folder / layout.names[0])
    splits = []
    for files, n in ((layout.train, public_set.n_train), (layout.test, public_set.n_test)):
        paths = [folder / file for file in files]
        read = _read_batches if layout.format.startswith("cifar") else _read_arrays
        images, labels = read(public_set, layout, paths, n)
        splits.append(ImageSet(images.reshape(n, *public_set.shape), labels, names))
    return Dataset(public_set.name, train=splits[0], test=splits[1])


def _read_names(public_set: PublicSet, layout: Layout, path: Path) -> tuple[str, ...]:
    """Read the class names in the order of the labels: one per line, or a list in CIFAR's pickled ``meta``."""
    if layout.format == "cifar-python":
        key = "fine_label_names" if layout.coarse_labels else "label_names"
        names = tuple(map(str, list_of(path, read_values(path), key)))
    else:
        names = tuple(line.strip() for line in text_lines(path))
    if len(names) != public_set.classes:
        raise DataError(f"{path} must name {public_set.classes} classes, got {len(names)}. Download it again.")
    return names


def _read_arrays(public_set: PublicSet, layout: Layout, paths: list[Path], n: int) -> Batch:
    """Read a file of images and one of labels, or one file of both (SVHN)."""
    c, h, w = public_set.shape
    if layout.format == "mat":
        (md5,) = (remote.md5 for remote in public_set.downloads if Path(remote.target).name == paths[0].name)
        images, labels = _read_mat(paths[0], (h, w, c, n), md5)
    else:
        read = {"idx": _read_idx, "raw": _read_raw, "npz": _read_npz}[layout.format]
        images, labels = read(paths[0], (n, h, w) if c == 1 else (n, c, h, w)), read(paths[1], (n,))
    indices = labels.astype(np.int64) - layout.first_label
    _check_labels(paths[-1], indices, public_set.classes, layout.first_label)
    if layout.by_column:
        images = np.ascontiguousarray(images.swapaxes(-2, -1))
    return images, indices


def _read_bytes(path: Path, count: int) -> npt.NDArray[np.uint8]:
    """Read a file of `count` bytes, gzipped if its name ends so; a forged one cannot fill the memory."""
    content = np.empty(count, np.uint8)
    try:
        with open_regular(path) as file, gzip.open(file) if path.suffix == ".gz" else file as stream:
            found, more = stream.readinto(content.data), stream.read(1)
    except (gzip.BadGzipFile, zlib.error, EOFError, struct.error) as error:
        raise DataError(f"{path} is not a complete gzip file ({error}). Download it again.") from error
    if found != count or more:
        raise DataError(f"{path} must have {count:,} bytes, got {'more' if more else f'{found:,}'}. Download it again.")
    return content


def _read_raw(path: Path, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Read a file of bytes without a header (STL-10)."""
    return _read_bytes(path, prod(shape)).reshape(shape)


def _read_idx(path: Path, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Read one idx file, which must have this shape. A plain file is preferred to a gzipped one."""
    header = struct.pack(f">{1 + len(shape)}I", _MAGIC + len(shape), *shape)
    place = path if path.exists() else path.with_name(path.name + ".gz")
    content = _read_bytes(place, len(header) + prod(shape))
    if content[: len(header)].tobytes() != header:
        raise DataError(f"{place} must be an idx file of shape {shape}, got another header. Download it again.")
    return content[len(header) :].reshape(shape)


def _read_npz(path: Path, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Read the only array of a file that ``numpy.savez`` wrote (K49)."""
    return _of_shape(path, load_arrays(path, ("arr_0",)).get("arr_0"), shape)


def _read_mat(path: Path, shape: tuple[int, ...], md5: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Read the images (n, c, h, w) and labels (n,) of a MATLAB file (SVHN), which has (h, w, c, n); ten means zero.

    Only the published file is read, because SciPy ends the process at some wrong bits.
    """
    from scipy.io import loadmat

    with open_regular(path) as file:
        check_md5(file, path, md5)
        content = loadmat(file, variable_names=("X", "y"))
    images, labels = _of_shape(path, content.get("X"), shape), _of_shape(path, content.get("y"), (shape[-1], 1))
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels[:, 0] % 10


def _of_shape(path: Path, array: npt.NDArray[Any] | None, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Return an array, which must be of bytes and have this shape."""
    if array is None or array.shape != shape or array.dtype != np.uint8:
        found = "none" if array is None else f"{array.dtype} of shape {array.shape}"
        raise DataError(f"{path} must have an array of uint8 of shape {shape}, got {found}. Download it again.")
    return array


def _check_labels(path: Path, labels: npt.NDArray[np.integer], classes: int, first: int = 0) -> None:
    """Refuse labels outside 0..classes-1; the error names the file and the label, which counts from `first` there."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        image = int(wrong[0])
        raise DataError(
            f"{path} must have labels in {first}..{classes - 1 + first}, got {int(labels[image]) + first} at image "
            f"{image}. Download it again."
        )


def _read_batches(public_set: PublicSet, layout: Layout, paths: list[Path], n: int) -> Batch:
    """Read CIFAR's files of one split, which have equal numbers of images."""
    per_file = n // len(paths)
    images, labels = np.empty((n, prod(public_set.shape)), np.uint8), np.empty(n, np.int64)
    read_batch = _read_binary_batch if layout.format == "cifar-binary" else _read_python_batch
    for number, path in enumerate(paths):
        rows = slice(number * per_file, (number + 1) * per_file)
        images[rows], labels[rows] = read_batch(public_set, layout, path, per_file)
        _check_labels(path, labels[rows], public_set.classes)
    return images, labels


def _read_binary_batch(public_set: PublicSet, layout: Layout, path: Path, n: int) -> Batch:
    """Read n records of label bytes (CIFAR-100: coarse, fine), then pixels."""
    label_bytes = 2 if layout.coarse_labels else 1
    records = _read_raw(path, (n, label_bytes + prod(public_set.shape)))
    return records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64)


def _read_python_batch(public_set: PublicSet, layout: Layout, path: Path, n: int) -> Batch:
    """Read a pickled dictionary with ``data`` (n, 3072) and a list of n labels."""
    values = read_values(path)
    key = "fine_labels" if layout.coarse_labels else "labels"
    labels = list_of(path, values, key)
    if len(labels) != n or not all(type(label) is int and abs(label) < 2**63 for label in labels):
        raise DataError(f"{path} must have a list of {n:,} integers under {key!r}. Download it again.")
    return pixels_of(path, values, (n, prod(public_set.shape))), np.array(labels, np.int64)
