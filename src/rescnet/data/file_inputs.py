"""Image files given by their paths: found, and read to train on or like a model's training images."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError
from .image_files import SUFFIXES, read_headers, read_images
from .image_set import CHANNELS
from .image_sizes import choose_size, fit_notes

Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"  # of image files

logger = logging.getLogger(__name__)


def read_to_train(files: Sequence[Path]) -> npt.NDArray[np.uint8]:
    """Read image files, shape (n, channels, height, width), in the size and colour that a folder of them would have."""
    headers = []
    for header in read_headers(files):
        if isinstance(header, DataError):
            raise header
        headers.append(header)
    sizes = Counter((header.height, header.width) for header in headers)
    size = choose_size(sizes)
    for note in fit_notes(sizes, size):
        logger.warning(note)
    return read_images(files, 1 if all(header.is_grey for header in headers) else 3, size)


def read_like(
    files: Sequence[Path],
    image_shape: tuple[int, int, int],
    preprocessing: Mapping[str, Any],
    errors: dict[Path, DataError] | None = None,
) -> npt.NDArray[Any]:
    """Read image files like the training images of a model, shape (readable files, channels, height, width).

    They become grey or colour, are resized and cropped around their centre to ``image_shape`` (channels, height,
    width), and get the units in ``preprocessing`` (:func:`rescnet.model.describe_images`). The error of a file that
    cannot be read is added to ``errors``. Without ``errors`` it is raised.
    """
    channels, height, width = image_shape
    if channels not in CHANNELS:
        raise DataError(f"images must be arrays for a network of {channels} channels, got files, which have 1 or 3.")
    return in_units(read_images(files, channels, (height, width), errors=errors), preprocessing)


def in_units(pixels: npt.NDArray[np.uint8], preprocessing: Mapping[str, Any]) -> npt.NDArray[Any]:
    """Return pixels of image files in the units of a model's training images.

    They are divided by 255 if those are floating-point numbers up to 1. DataError says if they are in other units.
    """
    low, high = preprocessing.get("low", 0), preprocessing.get("high", 255)
    if low < 0 or high > 255:
        raise DataError(
            f"the model must be trained on pixels from 0 to 255 to predict image files, got {low:g} to {high:g}. Use "
            "arrays, and prepare images like the training images."
        )
    floating = str(preprocessing.get("pixels", "uint8")).startswith("float")
    return (pixels / 255).astype(np.float32) if floating and high <= 1 else pixels


def is_path(value: Any) -> bool:
    """Return whether a value is the path of a file or folder, or a name."""
    return isinstance(value, str | os.PathLike)


def listed_files(values: Any, name: str = "images") -> list[Path] | None:
    """Return the image files that a path, or a list, array or column of paths stands for; None for other values.

    A single path may be that of a folder, see `files_in`. DataError says, by ``name``, if a file does not exist.
    """
    if is_path(values):
        path = Path(values).expanduser()
        if path.is_dir():
            return files_in(path)
        values = [path]
    if isinstance(values, Iterator):  # e.g. Path.glob, whose order is not fixed
        remedy = "Use sorted(...) of paths, list(...) of images"
        raise DataError(f"{name} must be a list or an array, got a {type(values).__name__}. {remedy}.")
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if getattr(values, "ndim", 0) == 1 and kind in ("O", "T", "U"):  # of an array or a data frame
        values = np.asarray(values)
    elif not isinstance(values, list | tuple):
        return None
    if not len(values) or not is_path(values[0]):
        return None
    for path in values:
        if not is_path(path):
            raise DataError(f"{name} must all be paths of image files, got {path!r} too.")
        if not Path(path).is_file():
            raise DataError(f"image files must exist, got {path}. Check the path.")
    return [Path(path) for path in values]


def files_in(folder: Path) -> list[Path]:
    """Return the image files in a folder, sub-folders included, sorted."""
    found = sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
    if not found:
        raise DataError(f"{folder} must contain an image file ({', '.join(sorted(SUFFIXES))}), got none.")
    return found
