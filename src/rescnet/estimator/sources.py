"""Images from PyTorch's data sets and data loaders, and from image files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler

from ..data.image_files import in_units, read_images
from ..network.inputs import plain_values
from .layouts import ImageLayout


def is_torch_data(X: Any) -> bool:
    """Return whether X is a torch ``Dataset`` or ``DataLoader``."""
    return isinstance(X, Dataset | DataLoader)


def read_torch_data(data: Any, ordered: bool) -> tuple[list[NDArray[Any]], list[Any] | None]:
    """Read all images and labels of a ``Dataset`` or ``DataLoader`` of (image, label), or of images alone.

    ``ordered`` refuses a loader that shuffles, since the results could not be matched to its images.
    """
    if ordered and isinstance(data, DataLoader) and isinstance(data.sampler, RandomSampler):
        raise ValueError("X must be a DataLoader in fixed order here, got one that shuffles. Use shuffle=False.")
    batched = isinstance(data, DataLoader) and data.batch_sampler is not None
    images: list[NDArray[Any]] = []
    labels: list[Any] = []
    for item in _items(data):
        image, *label = item if isinstance(item, tuple | list) else (item,)
        images.extend(np.asarray(plain_values(one, "X")) for one in (image if batched else [image]))
        if label:
            labels.extend(_plain(one) for one in (label[0] if batched else label[:1]))
    if not images:
        raise ValueError(f"X must hold images, got an empty {type(data).__name__}.")
    if labels and len(labels) != len(images):
        raise ValueError(f"X must yield (image, label), got {len(images)} images and {len(labels)} labels.")
    return images, labels or None


def _items(data: Any) -> Iterable[Any]:
    """Yield what a ``Dataset`` or ``DataLoader`` holds; not every ``Dataset`` ends an iteration by itself."""
    if isinstance(data, DataLoader | IterableDataset):
        return data
    return (data[index] for index in range(len(data)))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, Tensor) and label.ndim == 0 else label


def listed_files(X: Any) -> list[Path] | None:
    """Return the paths in a list, array or column of file paths; None if X is anything else."""
    if isinstance(X, str | os.PathLike):
        raise ValueError(f"X must be a list of file paths, got a single one, {os.fspath(X)!r}. Use [path].")
    column = not isinstance(X, Tensor) and getattr(X, "ndim", 0) == 1  # of an array or a data frame
    values = np.asarray(X) if column else X
    if not (column or isinstance(X, list | tuple)) or not len(values) or not isinstance(values[0], str | os.PathLike):
        return None
    for path in values:
        if not isinstance(path, str | os.PathLike) or not Path(path).is_file():
            raise ValueError(f"X must hold paths of image files, got {str(path)!r}, which is none.")
    return [Path(path) for path in values]


@dataclass(frozen=True)
class ImageFiles:
    """Image files as a sequence that is read slice by slice, fitted to the training images.

    ``preprocessing`` describes these (:func:`rescnet.network.model.describe_images`).
    """

    paths: Sequence[Path]
    layout: ImageLayout
    preprocessing: dict[str, Any]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, part: slice) -> NDArray[Any]:
        """Return some images in the layout of the training images."""
        channels, height, width = self.layout.channels_first
        if channels not in (1, 3):
            raise ValueError(f"X must be arrays for a network of {channels} channels: files have 1 or 3.")
        images: NDArray[Any] = read_images(self.paths[part], channels, (height, width), resize=True)
        return self.layout.from_channels_first(in_units(images, self.preprocessing))
