"""Image files as input of a trained network: found by their paths, and read like its training images."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .image_files import SUFFIXES, read_images
from .image_set import DataError


def read_if_files(images: Any, image_shape: tuple[int, int, int], preprocessing: Mapping[str, Any]) -> Any:
    """Return the images of file paths (see `listed_files`), shape (n, channels, height, width); others unchanged."""
    files = listed_files(images)
    return images if files is None else read_like(files, image_shape, preprocessing)


def read_like(
    files: Sequence[Path], image_shape: tuple[int, int, int], preprocessing: Mapping[str, Any]
) -> npt.NDArray[Any]:
    """Read image files like the training images of a network, shape (n, channels, height, width).

    They become grey or colour, are resized and cropped around their centre to ``image_shape`` (channels, height,
    width), and get the units in ``preprocessing`` (:func:`rescnet.model.describe_images`).
    """
    channels, *size = image_shape
    check_channels(channels)
    return in_units(read_images(files, channels, (size[0], size[1])), preprocessing)


def check_channels(channels: int) -> None:
    """Raise DataError if a network has another number of channels than image files."""
    if channels not in (1, 3):
        raise DataError(f"images must be arrays for a network of {channels} channels, got files, which have 1 or 3.")


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
            raise no_such_file(path)
    return [Path(path) for path in values]


def no_such_file(path: Any) -> DataError:
    """Return the error of an image file that does not exist."""
    return DataError(f"image files must exist, got {path}. Check the path.")


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
