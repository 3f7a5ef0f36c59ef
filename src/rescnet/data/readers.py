"""Readers of the public data sets in their authors' files.

MNIST and Fashion-MNIST are idx files: a big-endian header, then the bytes; plain or gzipped. CIFAR has a binary and a
Python version. Both store an image as 3072 bytes: the red, green and blue plane, each row by row from the top.
TinyImageNet has one folder of JPEG files per class, and annotated validation images.

Each reader takes the expected content, the files of a layout, and the root folder that these are relative to.
"""

from __future__ import annotations

import gzip
import logging
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .archives import Layout, LayoutFormat, PublicSet
from .cifar_pickle import read_cifar_pickle
from .image_files import Progress, read_images
from .image_set import DataError, Dataset, ImageSet, regular_file

_IMAGES_MAGIC = 0x0803  # unsigned bytes, three axes
_LABELS_MAGIC = 0x0801  # unsigned bytes, one axis

Batch = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""Pixels (n, c·h·w) and labels (n,) of one file."""
Sample = tuple[Path, int]
"""An image file and its label."""

logger = logging.getLogger(__name__)


def read_idx_set(public_set: PublicSet, layout: Layout, root: Path) -> Dataset:
    """Read the four idx files of MNIST or Fashion-MNIST. A plain file is preferred to a gzipped one."""
    parts = ((layout.train, public_set.n_train), (layout.test, public_set.n_test))
    train, test = (_read_idx_split(public_set, root / layout.folder, files, n) for files, n in parts)
    return Dataset(public_set.name, train=train, test=test)


def _read_idx_split(public_set: PublicSet, folder: Path, files: tuple[str, ...], n: int) -> ImageSet:
    (c, h, w), (images_file, labels_file) = public_set.shape, files
    images = _read_idx(folder / images_file, _IMAGES_MAGIC, (n, h, w)).reshape(n, c, h, w)
    labels = _read_idx(folder / labels_file, _LABELS_MAGIC, (n,))
    _check_labels(folder / labels_file, labels, public_set.classes)
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
        with regular_file(path).open("rb") as file:
            return file.read(limit)
    try:
        with gzip.open(regular_file(path)) as file:
            return file.read(limit)
    except (gzip.BadGzipFile, zlib.error, EOFError, struct.error) as error:
        raise DataError(f"{path} is not a complete gzip file ({error}). Download it again.") from error


def _check_labels(path: Path, labels: npt.NDArray[np.integer], classes: int) -> None:
    """Refuse labels outside 0..classes-1; the error names the file and the first such label."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        first = int(wrong[0])
        raise DataError(
            f"{path} must have labels in 0..{classes - 1}, got {int(labels[first])} at image {first}. "
            "Download it again."
        )


def read_cifar_set(public_set: PublicSet, layout: Layout, root: Path) -> Dataset:
    """Read CIFAR-10 or CIFAR-100 in either version. The files of a split have equal numbers of images."""
    folder = root / layout.folder
    names = _read_cifar_names(public_set, layout, folder / layout.names[0])
    return Dataset(
        public_set.name,
        train=_read_cifar_split(
            public_set, layout, [folder / file for file in layout.train], public_set.n_train, names
        ),
        test=_read_cifar_split(public_set, layout, [folder / file for file in layout.test], public_set.n_test, names),
    )


def _read_cifar_split(
    public_set: PublicSet, layout: Layout, paths: list[Path], n: int, names: tuple[str, ...]
) -> ImageSet:
    images = np.empty((n, *public_set.shape), np.uint8)
    labels = np.empty(n, np.int64)
    per_file = n // len(paths)
    read_batch = _read_binary_batch if layout.format == "cifar-binary" else _read_python_batch
    for number, path in enumerate(paths):
        rows = slice(number * per_file, (number + 1) * per_file)
        pixels, labels[rows] = read_batch(public_set, layout, path, per_file)
        _check_labels(path, labels[rows], public_set.classes)
        images[rows] = pixels.reshape(per_file, *public_set.shape)
    return ImageSet(images, labels, names)


def _read_binary_batch(public_set: PublicSet, layout: Layout, path: Path, n: int) -> Batch:
    """Read n records of label bytes (CIFAR-100: coarse, fine), then pixels."""
    label_bytes = 2 if layout.coarse_labels else 1
    record = label_bytes + int(np.prod(public_set.shape))
    found = regular_file(path).stat().st_size
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


def _read_cifar_names(public_set: PublicSet, layout: Layout, path: Path) -> tuple[str, ...]:
    """Read the class names in the order of the labels: one per line, or a list in the pickled ``meta``."""
    if layout.format == "cifar-binary":
        names = tuple(line.strip() for line in _lines(path))
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


def read_tiny_imagenet(public_set: PublicSet, layout: Layout, root: Path, progress: Progress | None = None) -> Dataset:
    """Read TinyImageNet.

    Labels follow the order of ``wnids.txt``. The annotated ``val`` images become the test split, because results are
    reported on them: the images under ``test`` have no published labels. An incomplete folder is read, with a warning
    in the log.
    """
    folder = root / layout.folder
    wnids = _read_wnids(public_set, folder / "wnids.txt")
    names = _read_names(wnids, folder / "words.txt")
    train, test = _train_samples(folder, wnids), _validation_samples(folder, wnids)
    if (len(train), len(test)) != (public_set.n_train, public_set.n_test):
        logger.warning(
            "%s has %d training and %d validation images; %d and %d were published",
            *(folder, len(train), len(test), public_set.n_train, public_set.n_test),
        )
    return Dataset(
        public_set.name,
        train=_read_samples(public_set, train, names, progress),
        test=_read_samples(public_set, test, names, progress),
    )


def _train_samples(folder: Path, wnids: list[str]) -> list[Sample]:
    """List ``train/<wnid>/images/*``, by class in the order of `wnids`, then by file name."""
    samples: list[Sample] = []
    for label, wnid in enumerate(wnids):
        images = folder / "train" / wnid / "images"
        if not images.is_dir():
            raise DataError(f"{images} is missing. Unpack tiny-imagenet-200.zip again.")
        paths = sorted(path for path in images.iterdir() if not path.name.startswith("."))
        if not paths:
            raise DataError(f"{images} has no images. Unpack tiny-imagenet-200.zip again.")
        samples += [(path, label) for path in paths]
    return samples


def _validation_samples(folder: Path, wnids: list[str]) -> list[Sample]:
    """List the images of ``val/val_annotations.txt``, in its order."""
    annotations = folder / "val" / "val_annotations.txt"
    label_of = {wnid: label for label, wnid in enumerate(wnids)}
    samples: list[Sample] = []
    for number, line in enumerate(_lines(annotations), start=1):
        file, _, rest = line.partition("\t")  # rest: wnid, then the corners of a box
        wnid = rest.partition("\t")[0]
        if wnid not in label_of or Path(file).name != file:
            raise DataError(f"{annotations} line {number} must have a file and a class of wnids.txt, got {line!r}.")
        samples.append((folder / "val" / "images" / file, label_of[wnid]))
    if not samples:
        raise DataError(f"{annotations} lists no images. Unpack tiny-imagenet-200.zip again.")
    return samples


def count_samples(public_set: PublicSet, layout: Layout, root: Path) -> tuple[int, int]:
    """Count training and validation images without opening them."""
    folder = root / layout.folder
    wnids = _read_wnids(public_set, folder / "wnids.txt")
    return len(_train_samples(folder, wnids)), len(_validation_samples(folder, wnids))


def _read_samples(
    public_set: PublicSet, samples: list[Sample], names: tuple[str, ...], progress: Progress | None
) -> ImageSet:
    c, h, w = public_set.shape
    images = read_images([path for path, _ in samples], c, (h, w), resize=False, progress=progress)
    return ImageSet(images, np.array([label for _, label in samples], np.int64), names)


def _read_wnids(public_set: PublicSet, path: Path) -> list[str]:
    """Read the WordNet ids of the classes, one per line."""
    wnids = [line.strip() for line in _lines(path)]
    if len(set(wnids)) != public_set.classes or len(wnids) != public_set.classes:
        raise DataError(f"{path} must have {public_set.classes} different ids, got {len(set(wnids))}.")
    return wnids


def _read_names(wnids: list[str], path: Path) -> tuple[str, ...]:
    """Read the first synonym of each id. If two classes share a name, their ids are appended."""
    synonyms = dict(line.split("\t", 1) for line in _lines(path) if "\t" in line)
    if missing := [wnid for wnid in wnids if wnid not in synonyms]:
        raise DataError(f"{path} has no words for {missing[0]}. Unpack tiny-imagenet-200.zip again.")
    names = [synonyms[wnid].split(",")[0].strip() for wnid in wnids]
    return tuple(f"{name} ({wnid})" if names.count(name) > 1 else name for wnid, name in zip(wnids, names, strict=True))


def _lines(path: Path) -> list[str]:
    text = regular_file(path).read_text(encoding="utf-8", errors="replace")
    return [line for line in text.splitlines() if line.strip()]


READERS: dict[LayoutFormat, Callable[[PublicSet, Layout, Path], Dataset]] = {
    "idx": read_idx_set,
    "cifar-binary": read_cifar_set,
    "cifar-python": read_cifar_set,
}
