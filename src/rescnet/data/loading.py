"""`load`, the one door to images: a public set by name, a folder of images, or a ``.npz`` file."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .archives import PUBLIC_SETS, Layout, LayoutFormat, PublicSet
from .cifar import read_cifar_set
from .download import Progress
from .errors import DataError
from .fetching import default_root, find, obtain
from .folders import read_image_folder
from .idx import read_idx_set
from .image_set import Dataset, ImageSet
from .npz import read_npz
from .tiny_imagenet import count_samples, read_tiny_imagenet

_READERS: dict[LayoutFormat, Callable[[PublicSet, Layout, Path], Dataset]] = {
    "idx": read_idx_set,
    "cifar-binary": read_cifar_set,
    "cifar-python": read_cifar_set,
    "tiny-imagenet": read_tiny_imagenet,
}


def load(
    source: str | Path,
    root: Path | None = None,
    download: bool = True,
    progress: Progress | None = None,
    *,
    image_size: tuple[int, int] | None = None,
) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    source : str or Path
        The name of a public set (see `describe`); a folder with one sub-folder of images for each class,
        or with ``train``, ``val`` and ``test`` folders of that kind; or a ``.npz`` file. A name comes
        before a folder of the same name: write ``./mnist`` for the folder.
    root : Path, optional
        Where public sets are kept. Default: the folder ``$RESCNET_DATA`` names, else ``~/datasets``.
    download : bool, default True
        Whether a public set that is not under `root` may be downloaded there.
    progress : callable, optional
        Called with (bytes done, bytes in all) while a set is downloaded.
    image_size : tuple of int, optional
        (h, w) to resize the images of a folder to; without it they must share one size.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If there is no such set, file or folder, or it cannot be fetched or read.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.train.images.shape, digits.train.labels.shape
    ((1797, 1, 8, 8), (1797,))
    """
    if isinstance(source, str) and source in PUBLIC_SETS:
        if image_size is not None:
            raise DataError(f"image_size={image_size} resizes image folders only, not {source}: leave it out.")
        return _load_public(PUBLIC_SETS[source], root, download, progress)
    path = Path(source).expanduser()
    if path.is_dir():
        return read_image_folder(path, _checked_size(image_size))
    if not path.exists():
        raise _no_such_source(source)
    if path.suffix != ".npz":
        raise DataError(f"{path} is a file but not a .npz one: give a folder of images, or arrays in a .npz file.")
    if image_size is not None:
        raise DataError(f"image_size={image_size} resizes image folders only, not {path}: leave it out.")
    return read_npz(path)


class DatasetRow(NamedTuple):
    """One public set, as the command ``rescnet datasets`` lists it."""

    name: str
    present: bool
    """Whether it can be loaded without a download."""
    folder: Path | None
    """Where it is, or would be; None for a set that comes with scikit-learn."""
    classes: int
    image_shape: tuple[int, int, int]
    """(c, h, w)."""
    n_train: int
    n_test: int


def describe(root: Path | None = None) -> list[DatasetRow]:
    """List the public sets and whether each is there, without loading or fetching any.

    Parameters
    ----------
    root : Path, optional
        Where public sets are kept; as for `load`.

    Examples
    --------
    >>> [row.name for row in describe()]
    ['digits', 'mnist', 'fashion-mnist', 'cifar10', 'cifar100', 'tiny-imagenet']
    """
    root = default_root() if root is None else Path(root).expanduser()
    return [_describe_one(public_set, root) for public_set in PUBLIC_SETS.values()]


def _describe_one(public_set: PublicSet, root: Path) -> DatasetRow:
    name, classes, shape = public_set.name, public_set.classes, public_set.shape
    counts = public_set.n_train, public_set.n_test
    if not public_set.layouts:
        return DatasetRow(name, True, None, classes, shape, *counts)
    found = find(public_set, root)
    if found is not None and found.format == "tiny-imagenet":  # which is often there in part
        try:
            counts = count_samples(public_set, found, root)
        except DataError:
            found = None
    layout = found or public_set.layouts[0]
    return DatasetRow(name, found is not None, root / layout.folder, classes, shape, *counts)


def _load_public(public_set: PublicSet, root: Path | None, download: bool, progress: Progress | None) -> Dataset:
    if public_set.name == "digits":
        return _load_digits(public_set)
    root = default_root() if root is None else Path(root).expanduser()
    layout = obtain(public_set, root, download, progress)
    return _READERS[layout.format](public_set, layout, root)


def _load_digits(public_set: PublicSet) -> Dataset:
    """scikit-learn's 8×8 digits, whose 0..16 become 0..255; they come in one split."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.rint(digits.images * 255 / 16).astype(np.uint8)  # (n, 8, 8)
    names = public_set.class_names or ()
    return Dataset("digits", ImageSet(images[:, np.newaxis], digits.target.astype(np.int64), names))


def _checked_size(image_size: tuple[int, int] | None) -> tuple[int, int] | None:
    if image_size is not None and (len(image_size) != 2 or any(side < 1 for side in image_size)):
        raise DataError(f"image_size={image_size!r} is not two positive numbers: give (height, width).")
    return image_size


def _no_such_source(source: str | Path) -> DataError:
    names = ", ".join(PUBLIC_SETS)
    text = str(source)
    if isinstance(source, Path) or os.sep in text or "/" in text or text.endswith(".npz"):
        return DataError(f"there is no file or folder {text}: check the path, or name a public set ({names}).")
    nearest = difflib.get_close_matches(text.lower(), PUBLIC_SETS, n=1)
    hint = f"did you mean {nearest[0]} (of {names})?" if nearest else f"the public sets are {names}."
    return DataError(f"{text!r} is neither a public set nor a file or folder: {hint}")
