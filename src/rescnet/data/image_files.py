"""Your own images: a folder with one sub-folder for each class, or such a folder for each split.

::

    pets/                     pets/
      cat/1.png 2.png ...       train/cat/... train/dog/...
      dog/1.png 2.png ...       val/cat/...   val/dog/...      (or validation/)
                                test/cat/...  test/dog/...
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .decode import ImageHeader, read_headers, read_images
from .errors import DataError
from .image_set import Dataset, ImageSet

LEFT_BEHIND = {"thumbs.db", "desktop.ini"}
_SPLIT_OF_FOLDER = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}

ClassFiles = dict[str, list[Path]]
"""The image files of each class; classes and files sorted by name."""


def read_image_folder(folder: Path, image_size: tuple[int, int] | None = None) -> Dataset:
    """Read a folder of images.

    Classes are in the order of their names. Images are all grey, one channel, or all in colour, three. Every
    image is looked at before the first is decoded, so that one of the wrong size or kind is reported at once.

    Parameters
    ----------
    folder : Path
        One sub-folder for each class; or ``train`` and, where wanted, ``val`` (or ``validation``) and
        ``test``, each with the same classes. Files and folders whose names start with a dot are skipped,
        and so are Thumbs.db and desktop.ini.
    image_size : tuple of int, optional
        (h, w) to resize every image to. By default images must share one size.

    Raises
    ------
    DataError
        If a class has no image, a file is not an image, sizes differ, some images are grey and others not, or
        splits differ in their classes.
    """
    splits = {split: _list_classes(where) for split, where in _find_splits(folder).items()}
    names = tuple(splits["train"])
    for split, classes in splits.items():
        if odd := sorted(set(names) ^ set(classes)):
            raise DataError(
                f"{folder}: the class {odd[0]!r} is in only one of train and {split}: "
                "every split needs the same class folders."
            )
    paths = [path for classes in splits.values() for files in classes.values() for path in files]
    headers = read_headers(paths)
    channels = _shared_channels(paths, headers)
    size = image_size or _shared_size(paths, headers)
    read = {
        split: _read_split(classes, names, channels, size, resize=image_size is not None)
        for split, classes in splits.items()
    }
    return Dataset(folder.resolve().name, read["train"], read.get("validation"), read.get("test"))


def _find_splits(folder: Path) -> dict[str, Path]:
    """Tell a folder of splits from a folder of classes; the latter is all training images.

    It is one of splits if all its sub-folders are named like splits: with any other beside it, ``train``
    is a class of vehicles.
    """
    found = _sub_folders(folder)
    if not found or any(where.name not in _SPLIT_OF_FOLDER for where in found):
        return {"train": folder}
    splits = {_SPLIT_OF_FOLDER[where.name]: where for where in found}
    if len(splits) < len(found):
        raise DataError(f"{folder} has both val and validation: keep one of them.")
    if "train" not in splits:
        raise DataError(f"{folder} has {', '.join(where.name for where in found)} but no train folder: add one.")
    return {split: splits[split] for split in ("train", "validation", "test") if split in splits}


def _list_classes(folder: Path) -> ClassFiles:
    classes: ClassFiles = {}
    for where in _sub_folders(folder):
        files = _visible(where)
        if not files:
            raise DataError(f"{where} holds no image: put some there, or remove the folder.")
        if nested := [path for path in files if path.is_dir()]:
            raise DataError(
                f"{nested[0]} is a folder where an image was expected: images lie directly in the folder "
                "of their class."
            )
        classes[where.name] = files
    if not classes:
        raise DataError(f"{folder} has no sub-folders: make one for each class and put its images there.")
    return classes


def _shared_channels(paths: list[Path], headers: list[ImageHeader]) -> int:
    """Return the channels all images have, 1 or 3."""
    grey = [path for path, header in zip(paths, headers, strict=True) if header.is_grey]
    if grey and len(grey) < len(paths):
        coloured = next(path for path, header in zip(paths, headers, strict=True) if not header.is_grey)
        verb = f"and {len(grey) - 1} more are" if len(grey) > 1 else "is"
        raise DataError(f"{grey[0]} {verb} grey but {coloured} has colour: save all images in colour, or all in grey.")
    return 1 if grey else 3


def _shared_size(paths: list[Path], headers: list[ImageHeader]) -> tuple[int, int]:
    """Return the (h, w) all images have."""
    first = headers[0]
    for path, header in zip(paths, headers, strict=True):
        if (header.height, header.width) != (first.height, first.width):
            raise DataError(
                f"{path} is {header.height}×{header.width} but {paths[0]} is {first.height}×{first.width} "
                "(height×width): bring all images to one size, or have them resized (image_size, --image-size)."
            )
    return first.height, first.width


def _read_split(
    classes: ClassFiles, names: tuple[str, ...], channels: int, size: tuple[int, int], resize: bool
) -> ImageSet:
    paths = [path for name in names for path in classes[name]]
    labels = np.repeat(np.arange(len(names), dtype=np.int64), [len(classes[name]) for name in names])
    return ImageSet(read_images(paths, channels, size, resize), labels, names)


def _sub_folders(folder: Path) -> list[Path]:
    return [path for path in _visible(folder) if path.is_dir()]


def _visible(folder: Path) -> list[Path]:
    """List what is in a folder, sorted by name, without hidden files and those a file manager leaves behind."""
    return sorted(
        path for path in folder.iterdir() if not path.name.startswith(".") and path.name.lower() not in LEFT_BEHIND
    )
