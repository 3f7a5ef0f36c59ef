"""What every source of images is read into: `ImageSet`, one split, and `Dataset`, the splits together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import DataError

Images = npt.NDArray[Any]
"""(n, c, h, w), uint8 or float32."""
Labels = npt.NDArray[np.int64]
"""(n,), each in 0..C-1."""


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images and the class of each.

    Parameters
    ----------
    images : ndarray of uint8 or float32, shape (n, c, h, w)
        One or three channels, rows from the top. Not scaled: the network's first stage does that.
    labels : ndarray of int64, shape (n,)
        The index in `class_names` of each image's class.
    class_names : tuple of str, length C
        What the classes are called.

    Examples
    --------
    >>> import numpy as np
    >>> pair = ImageSet(np.zeros((2, 1, 8, 8), np.uint8), np.array([0, 1]), ("cat", "dog"))
    >>> len(pair), pair.shape
    (2, (1, 8, 8))
    """

    images: Images
    labels: Labels
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        if images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape:
            raise DataError(
                f"images have shape {images.shape}: expected (n, c, h, w) with 1 or 3 channels and no empty side."
            )
        if images.dtype not in (np.uint8, np.float32):
            raise DataError(f"images are {images.dtype}: convert them to uint8 or float32.")
        if labels.dtype != np.int64 or labels.shape != images.shape[:1]:
            raise DataError(
                f"labels are {labels.dtype} of shape {labels.shape}: expected int64 of shape ({len(images)},), "
                "one label an image."
            )
        lowest, highest = int(labels.min()), int(labels.max())
        if lowest < 0 or highest >= len(self.class_names):
            raise DataError(
                f"labels run from {lowest} to {highest} but there are {len(self.class_names)} class names: "
                "a label is an index into class_names."
            )

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image, (c, h, w)."""
        _, c, h, w = self.images.shape
        return c, h, w


@dataclass(frozen=True, eq=False)
class Dataset:
    """The splits of one data set; all share their classes and the shape of an image.

    Parameters
    ----------
    name : str
        What the set is called: its public name, or the name of the folder or file it was read from.
    train : ImageSet
    validation, test : ImageSet or None
        None where the source has no such split.
    """

    name: str
    train: ImageSet
    validation: ImageSet | None = None
    test: ImageSet | None = None

    def __post_init__(self) -> None:
        for split, images in (("validation", self.validation), ("test", self.test)):
            if images is None:
                continue
            if images.shape != self.train.shape:
                raise DataError(
                    f"{self.name}: {split} images have shape {images.shape} but training images "
                    f"{self.train.shape}: bring all splits to one shape (c, h, w)."
                )
            if images.class_names != self.train.class_names:
                raise DataError(f"{self.name}: {split} and training images do not have the same classes.")

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called, in the order of the labels."""
        return self.train.class_names

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image, (c, h, w)."""
        return self.train.shape
