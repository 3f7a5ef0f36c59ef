"""Data sets in memory: `ImageSet` is one split, `Dataset` all splits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError
from ..base.text import count, show_shape

Images = npt.NDArray[Any]  # (n, c, h, w), uint8 or float32
Labels = npt.NDArray[np.int64]  # (n,), each in 0..C-1
CHANNELS = (1, 3)  # grey or colour: transparency is dropped from files, and an array with it is no data set


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """Images and their labels.

    Parameters
    ----------
    images : ndarray of uint8 or float32, shape (n, c, h, w)
        One or three channels, rows from the top. Not scaled: the network's first stage does that.
    labels : ndarray of int64, shape (n,)
        Class of each image, as an index into `class_names`.
    class_names : tuple of str, length C
    files : tuple of str, length n
        Path of each image in its folder; empty if the images are not files of a folder.

    Examples
    --------
    >>> import numpy as np
    >>> pair = ImageSet(np.zeros((2, 1, 8, 8), np.uint8), np.array([0, 1]), ("cat", "dog"))
    >>> pair
    ImageSet(2 images of 8×8×1, 2 classes)
    """

    images: Images
    labels: Labels
    class_names: tuple[str, ...]
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        if images.ndim != 4 or images.shape[1] not in CHANNELS or 0 in images.shape:
            raise DataError(
                f"images must have shape (n, c, h, w) with 1 or 3 channels and no empty axis, got {images.shape}."
            )
        if images.dtype not in (np.uint8, np.float32):
            raise DataError(f"images must be uint8 or float32, got {images.dtype}. Convert them.")
        if labels.dtype != np.int64 or labels.shape != images.shape[:1]:
            raise DataError(
                f"labels must be int64 of shape ({len(images)},), one per image, "
                f"got {labels.dtype} of shape {labels.shape}."
            )
        if self.files and len(self.files) != len(images):
            raise DataError(f"files must be empty or {len(images)}, one per image, got {len(self.files)}.")
        lowest, highest = int(labels.min()), int(labels.max())
        if lowest < 0 or highest >= len(self.class_names):
            raise DataError(
                f"labels must be indices of the {len(self.class_names)} class names, got {lowest} to {highest}."
            )

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"ImageSet({count(len(self), 'image', 'images')} of {_shape_and_classes(self)})"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image, (c, h, w)."""
        _, c, h, w = self.images.shape
        return c, h, w

    def subset(self, indices: npt.NDArray[np.intp]) -> ImageSet:
        """Return the images with these indices, shape (m,), and their labels."""
        files = tuple(self.files[index] for index in indices) if self.files else ()
        return replace(self, images=self.images[indices], labels=self.labels[indices], files=files)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """The splits of one data set; all have the same classes and image shape.

    Parameters
    ----------
    name : str
        Public name, or the name of the folder or file it was read from.
    train : ImageSet
    validation, test : ImageSet or None
        None if the source has no such split.
    notes : tuple of str
        Lines about how an image folder was read: the size that images were fitted to, and the files left out.
    """

    name: str
    train: ImageSet
    validation: ImageSet | None = None
    test: ImageSet | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for split, images in (("validation", self.validation), ("test", self.test)):
            if images is None:
                continue
            if images.shape != self.train.shape:
                raise DataError(
                    f"{self.name}: {split} images must have the shape (c, h, w) of the training images, "
                    f"{self.train.shape}, got {images.shape}."
                )
            if images.class_names != self.train.class_names:
                raise DataError(f"{self.name}: {split} and training images must have the same classes.")

    def __repr__(self) -> str:
        splits = {"training": self.train, "validation": self.validation, "test": self.test}
        sizes = ", ".join(f"{len(part):,} {name}" for name, part in splits.items() if part is not None)
        return f"Dataset({self.name!r}, {sizes} images of {_shape_and_classes(self.train)})"

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the labels."""
        return self.train.class_names

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image, (c, h, w)."""
        return self.train.shape


def _shape_and_classes(images: ImageSet) -> str:
    return f"{show_shape(images.shape)}, {count(len(images.class_names), 'class', 'classes')}"
