"""CIFAR-10 and CIFAR-100, in the authors' binary version or their Python version.

Both versions store an image as 3072 bytes: the red, green and blue plane, each row by row from the top.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .archives import Layout, PublicSet
from .cifar_pickle import read_cifar_pickle
from .image_set import DataError, Dataset, ImageSet
from .mnist import check_labels

Batch = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""Pixels (n, c·h·w) and labels (n,) of one file."""


def read_cifar_set(public_set: PublicSet, layout: Layout, root: Path) -> Dataset:
    """Read CIFAR-10 or CIFAR-100 in either version.

    Parameters
    ----------
    public_set : PublicSet
        Expected content. The files of a split have equal numbers of images.
    layout : Layout
        The files and their format.
    root : Path
        Folder that `layout.folder` is relative to.
    """
    folder = root / layout.folder
    names = _read_names(public_set, layout, folder / layout.names[0])
    return Dataset(
        public_set.name,
        train=_read_split(public_set, layout, [folder / file for file in layout.train], public_set.n_train, names),
        test=_read_split(public_set, layout, [folder / file for file in layout.test], public_set.n_test, names),
    )


def _read_split(public_set: PublicSet, layout: Layout, paths: list[Path], n: int, names: tuple[str, ...]) -> ImageSet:
    images = np.empty((n, *public_set.shape), np.uint8)
    labels = np.empty(n, np.int64)
    per_file = n // len(paths)
    read_batch = _read_binary_batch if layout.format == "cifar-binary" else _read_python_batch
    for number, path in enumerate(paths):
        rows = slice(number * per_file, (number + 1) * per_file)
        pixels, labels[rows] = read_batch(public_set, layout, path, per_file)
        check_labels(path, labels[rows], public_set.classes)
        images[rows] = pixels.reshape(per_file, *public_set.shape)
    return ImageSet(images, labels, names)


def _read_binary_batch(public_set: PublicSet, layout: Layout, path: Path, n: int) -> Batch:
    """Read n records of label bytes (CIFAR-100: coarse, fine), then pixels."""
    label_bytes = 2 if layout.coarse_labels else 1
    record = label_bytes + int(np.prod(public_set.shape))
    found = path.stat().st_size
    if found != n * record:
        raise DataError(
            f"{path} must have {n * record:,} bytes ({n:,} images of {record}), got {found:,}. Download it again."
        )
    records = np.fromfile(path, np.uint8).reshape(n, record)
    return records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64)


def _read_python_batch(public_set: PublicSet, layout: Layout, path: Path, n: int) -> Batch:
    """Read a pickled dictionary with ``data`` (n, 3072) and a list of n labels."""
    batch = read_cifar_pickle(path)
    key = "fine_labels" if layout.coarse_labels else "labels"
    pixels: Any = _entry(path, batch, "data")
    labels = _entry(path, batch, key)
    expected = (n, int(np.prod(public_set.shape)))
    found = getattr(pixels, "shape", None)
    if found != expected:
        raise DataError(f"{path} must have data of shape {expected}, got {found}. Download it again.")
    if not isinstance(labels, list) or len(labels) != n or not all(type(label) is int for label in labels):
        raise DataError(f"{path} must have a list of {n:,} integers under {key!r}. Download it again.")
    try:
        return pixels, np.array(labels, np.int64)
    except OverflowError as error:
        raise DataError(f"{path} must have 64-bit integers under {key!r}. Download it again.") from error


def _read_names(public_set: PublicSet, layout: Layout, path: Path) -> tuple[str, ...]:
    """Read the class names in the order of the labels: one per line, or a list in the pickled ``meta``."""
    if layout.format == "cifar-binary":
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        names = tuple(line.strip() for line in lines if line.strip())
    else:
        key = "fine_label_names" if layout.coarse_labels else "label_names"
        entries = _entry(path, read_cifar_pickle(path), key)
        if not isinstance(entries, list):
            raise DataError(f"{path} must have a list under {key!r}. Download it again.")
        names = tuple(name.decode("latin-1") if isinstance(name, bytes) else str(name) for name in entries)
    if len(names) != public_set.classes:
        raise DataError(f"{path} must name {public_set.classes} classes, got {len(names)}. Download it again.")
    return names


def _entry(path: Path, content: dict[str, Any], key: str) -> object:
    if key not in content:
        raise DataError(f"{path} must have an entry {key!r}, got {sorted(content)}. It belongs to another data set.")
    return content[key]
