"""Loading by name or path: a public data set, a folder of images, or a ``.npz`` file."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import DataError
from ..base.text import nearest
from .archives import PUBLIC_SETS, PublicSet
from .fetch import Progress, default_root, fetch, find_layout
from .image_folder import scan_folder
from .image_set import CHANNELS, Dataset, ImageSet
from .npz import read_npz
from .readers import read_public_set
from .splits import keep_first
from .tiny_imagenet import count_samples, read_tiny_imagenet

logger = logging.getLogger(__name__)
LEAST_SIDE = 4  # pixels: smaller images have no room for the blocks and the pyramid of the default network


def load(
    source: str | Path,
    root: Path | None = None,
    download: bool = True,
    progress: Progress | None = None,
    *,
    image_size: tuple[int, int] | None = None,
    channels: int | None = None,
    strict: bool = False,
    files_progress: Progress | None = None,
) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    source : str or Path
        Name of a public data set (see `describe`); a folder with one sub-folder of images per class, or with such
        folders ``train``, ``val`` and ``test``; or a ``.npz`` file. A public name has priority over a folder of the
        same name: write ``./mnist`` for the folder. ``cifar10:50`` keeps the first 50 training images of each class,
        of any source.
    root : Path, optional
        Folder of the public data sets. Default: ``$RESCNET_DATA`` if set, else ``~/datasets``.
    download : bool, default True
        Whether to download a public data set that is not under `root`.
    progress : callable, optional
        Called with (bytes received, total bytes) during a download.
    image_size : tuple of int, optional
        (h, w) that the images of a folder are resized and centre-cropped to. Default: chosen from their sizes.
    channels : int, optional
        1 or 3, to read the images of a folder as grey or as colour. Default: grey if all of them are.
    strict : bool, default False
        Whether to refuse an image folder with problems, e.g. unreadable files. Otherwise `Dataset.notes` name them.
    files_progress : callable, optional
        Called with (files read, all files) for a source of image files.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If the data set, file or folder does not exist, or cannot be downloaded or read.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.train.images.shape, digits.train.labels.shape
    ((1797, 1, 8, 8), (1797,))
    """
    source, images_per_class = parse_source(source)
    if images_per_class is not None:
        fit: Any = {"image_size": image_size, "channels": channels, "strict": strict}
        return keep_first(
            load(source, root, download, progress, files_progress=files_progress, **fit), images_per_class
        )
    public_set = PUBLIC_SETS.get(source) if isinstance(source, str) else None
    path = Path(source).expanduser()
    if public_set is None and path.is_dir():
        if image_size is not None and (len(image_size) != 2 or any(side < 1 for side in image_size)):
            raise DataError(f"image_size must be two positive numbers (height, width), got {image_size!r}.")
        return scan_folder(path, files_progress).read(image_size, channels, strict, files_progress)
    if public_set is None and not path.exists():
        raise _no_such_source(source)
    if image_size is not None:
        raise DataError(f"image_size must be None for {source}, got {image_size}. Only image folders are resized.")
    if public_set is None and path.suffix != ".npz":
        raise DataError(f"{path} must be a folder of images or a .npz file, got another file.")
    if public_set is None:
        return read_npz(path)
    if public_set.name == "digits":
        return _load_digits(public_set)
    root = _root(root)
    layout = fetch(public_set, root, download, progress)
    if layout.format == "tiny-imagenet":
        return read_tiny_imagenet(public_set, layout, root, files_progress)
    return read_public_set(public_set, layout, root)


def load_to_train(source: str | os.PathLike[str]) -> Dataset:
    """Load a data set that a network can be trained on; how its image files were read is logged."""
    dataset = load(source if isinstance(source, str) else Path(source))
    check_trainable(dataset)
    for note in dataset.notes:
        logger.warning("%s: %s", dataset.name, note)
    return dataset


def size_for(source: str | Path, image_shape: tuple[int, int, int]) -> dict[str, Any]:
    """Return the arguments of :func:`load` that fit a folder to a model's images (channels, height, width)."""
    channels, height, width = image_shape
    fits = is_folder(source) and channels in CHANNELS
    return {"image_size": (height, width), "channels": channels} if fits else {}


def check_trainable(dataset: Dataset) -> None:
    """Raise DataError if there are fewer than two classes, or images are too small."""
    if len(dataset.class_names) < 2:
        raise DataError(
            f"{dataset.name} must have at least two classes, got only {dataset.class_names[0]!r}. An image folder has "
            "one sub-folder per class."
        )
    check_size(dataset.name, dataset.shape[1:])


def check_size(name: str, size: tuple[int, int]) -> None:
    """Raise DataError if images (h, w) are too small."""
    height, width = size
    if min(size) < LEAST_SIDE:
        raise DataError(
            f"images of {name} must have at least {LEAST_SIDE}×{LEAST_SIDE} pixels, got {height}×{width}. Use "
            "larger images."
        )


def is_folder(source: str | Path) -> bool:
    """Return whether a source is an image folder."""
    whole, _ = parse_source(source)
    return whole not in PUBLIC_SETS and Path(whole).expanduser().is_dir()


def parse_source(source: str | Path) -> tuple[str | Path, int | None]:
    """Return the source without its split, and the number of training images per class; None is all.

    Examples
    --------
    >>> parse_source("cifar10:50"), parse_source("cifar10")
    (('cifar10', 50), ('cifar10', None))
    """
    whole, colon, number = str(source).rpartition(":")
    if not whole or not colon or set(number) & {"/", os.sep} or Path(source).expanduser().exists():
        return source, None
    if not number.isdecimal() or int(number) < 1:
        raise DataError(
            f"the number of training images per class must be at least 1, got {str(source)!r}. Write cifar10:50, for "
            "example."
        )
    return whole, int(number)


class DatasetRow(NamedTuple):
    """One public data set, as ``rescnet datasets`` lists it."""

    name: str
    present: bool
    """True if it can be loaded without a download."""
    folder: Path | None
    """Folder of its files, present or not. None for a data set of scikit-learn."""
    classes: int
    image_shape: tuple[int, int, int]
    """(c, h, w)."""
    n_train: int
    n_test: int
    download_bytes: int | None
    """None if unknown."""
    page: str
    """Address of its authors' page."""


def describe(root: Path | None = None) -> list[DatasetRow]:
    """List the public data sets under `root` and whether each is present, without reading or downloading them.

    Examples
    --------
    >>> [row.name for row in describe()]  # doctest: +ELLIPSIS
    ['digits', 'mnist', 'fashion-mnist', ..., 'emnist-letters', 'emnist-mnist']
    """
    root = _root(root)
    return [_describe_one(public_set, root) for public_set in PUBLIC_SETS.values()]


def public_set_named(name: str) -> PublicSet:
    """Return a public data set by its name."""
    if name not in PUBLIC_SETS:
        known = ", ".join(PUBLIC_SETS)
        raise DataError(f"name must be a public data set ({known}), got {name!r}.{nearest(name.lower(), PUBLIC_SETS)}")
    return PUBLIC_SETS[name]


def _describe_one(public_set: PublicSet, root: Path) -> DatasetRow:
    counts = public_set.n_train, public_set.n_test
    sizes = [remote.size for remote in public_set.downloads]
    found = find_layout(public_set, root)
    if found is not None and found.format == "tiny-imagenet":  # often present in part
        try:
            counts = count_samples(public_set, found, root)
        except DataError:
            found = None
    folders = [root / layout.folder for layout in ([found] if found else public_set.layouts)]
    return DatasetRow(
        public_set.name,
        found is not None or not folders,
        folders[0] if folders else None,
        public_set.classes,
        public_set.shape,
        *counts,
        sum(size or 0 for size in sizes) if all(sizes) else None,
        public_set.page,
    )


def _root(root: Path | None) -> Path:
    return default_root() if root is None else Path(root).expanduser()


def _load_digits(public_set: PublicSet) -> Dataset:
    """Load scikit-learn's 8×8 digits, scaled from 0..16 to 0..255. They have no test split."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.rint(digits.images * 255 / 16).astype(np.uint8)  # (n, 8, 8)
    names = public_set.class_names or ()
    return Dataset("digits", ImageSet(images[:, np.newaxis], digits.target.astype(np.int64), names))


def _no_such_source(source: str | Path) -> DataError:
    """Return the error of a source that does not exist, with the most similar folder, file or public set."""
    path = Path(source).expanduser()
    beside = path.parent.iterdir() if os.access(path.parent, os.R_OK) else ()
    known = [other.name for other in beside if other.is_dir() or other.suffix == ".npz"]
    hint = nearest(path.name, [*known, *PUBLIC_SETS]) or nearest(path.name.lower(), PUBLIC_SETS)
    public = f" Public data sets: {', '.join(PUBLIC_SETS)}."
    return DataError(
        f"source must be an image folder, a .npz file or a public data set, got {str(source)!r}, which does not exist."
        f"{hint or public}"
    )
