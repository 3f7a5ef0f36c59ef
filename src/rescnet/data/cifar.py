"""CIFAR-10 and CIFAR-100, from the authors' binary version or their Python version.

Both versions store an image as 3072 bytes: the red plane, the green, the blue, each row by row from the top.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .archives import Layout, PublicSet
from .cifar_pickle import read_cifar_pickle
from .errors import DataError
from .idx import refuse_labels_out_of_range
from .image_set import Dataset, ImageSet

Batch = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""Pixels (n, c·h·w) and labels (n,) of one file."""


def read_cifar_set(public_set: PublicSet, layout: Layout, root: Path) -> Dataset:
    """Read a CIFAR set in either version.

    Parameters
    ----------
    public_set : PublicSet
        What the files must hold. Each file of a split has an equal share of its images.
    layout : Layout
        Which files, and in which of the two formats.
    root : Path
        The folder `layout.folder` is relative to.
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
    rows = n // len(paths)
    read_batch = _read_binary_batch if layout.format == "cifar-binary" else _read_python_batch
    for number, path in enumerate(paths):
        here = slice(number * rows, (number + 1) * rows)
        pixels, labels[here] = read_batch(public_set, layout, path, rows)
        refuse_labels_out_of_range(path, labels[here], public_set.classes)
        images[here] = pixels.reshape(rows, *public_set.shape)
    return ImageSet(images, labels, names)


def _read_binary_batch(public_set: PublicSet, layout: Layout, path: Path, rows: int) -> Batch:
    """Read one record an image: the label bytes (CIFAR-100: coarse, fine), then the pixels."""
    label_bytes = 2 if layout.coarse_labels else 1
    record = label_bytes + int(np.prod(public_set.shape))
    found = path.stat().st_size
    if found != rows * record:
        raise DataError(
            f"{path} has {found:,} bytes but {rows:,} images of {record} bytes make {rows * record:,}: "
            "it is cut short or another file; fetch it again."
        )
    records = np.fromfile(path, np.uint8).reshape(rows, record)
    return records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64)


def _read_python_batch(public_set: PublicSet, layout: Layout, path: Path, rows: int) -> Batch:
    """Read a pickled dictionary with ``data`` (rows, 3072) and a list of labels."""
    batch = read_cifar_pickle(path)
    key = "fine_labels" if layout.coarse_labels else "labels"
    pixels: Any = _entry(path, batch, "data")
    labels = _entry(path, batch, key)
    expected = (rows, int(np.prod(public_set.shape)))
    found = getattr(pixels, "shape", None)
    if found != expected:
        raise DataError(f"{path} has data of shape {found} but {expected} was expected: fetch it again.")
    if not isinstance(labels, list) or len(labels) != rows or not all(type(label) is int for label in labels):
        raise DataError(f"{path} should have {rows:,} whole numbers under {key!r}: fetch it again.")
    try:
        return pixels, np.array(labels, np.int64)
    except OverflowError as error:
        raise DataError(f"{path} has a label beyond 64 bits under {key!r}: fetch it again.") from error


def _read_names(public_set: PublicSet, layout: Layout, path: Path) -> tuple[str, ...]:
    """Class names, in the order of the labels: a line each, or a list in the pickled ``meta``."""
    if layout.format == "cifar-binary":
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        names = tuple(line.strip() for line in lines if line.strip())
    else:
        key = "fine_label_names" if layout.coarse_labels else "label_names"
        entries = _entry(path, read_cifar_pickle(path), key)
        if not isinstance(entries, list):
            raise DataError(f"{path} has no list under {key!r}: fetch it again.")
        names = tuple(name.decode("latin-1") if isinstance(name, bytes) else str(name) for name in entries)
    if len(names) != public_set.classes:
        raise DataError(f"{path} names {len(names)} classes but {public_set.name} has {public_set.classes}.")
    return names


def _entry(path: Path, content: dict[str, Any], key: str) -> object:
    if key not in content:
        raise DataError(f"{path} has no entry {key!r}, only {sorted(content)}: it is another set's file.")
    return content[key]
