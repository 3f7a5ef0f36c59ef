"""Images from PyTorch's data sets and data loaders, and from image files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler

from ..base.errors import DataError
from ..data import ImageSet
from ..data.file_inputs import in_units
from ..data.loading import load, size_for
from ..network.inputs import plain_values
from ..network.layouts import ImageLayout


def is_torch_data(X: Any) -> bool:
    """Return whether X is a torch ``Dataset`` or ``DataLoader``."""
    return isinstance(X, Dataset | DataLoader)


def read_torch_data(data: Any, ordered: bool) -> tuple[list[NDArray[Any]], list[Any] | None]:
    """Read all images and labels of a ``Dataset`` or ``DataLoader`` of (image, label), or of images alone.

    ``ordered`` refuses a loader that shuffles, since the results could not be matched to its images.
    """
    if ordered and isinstance(data, DataLoader) and isinstance(data.sampler, RandomSampler):
        raise DataError("X must be a DataLoader in fixed order here, got one that shuffles. Use shuffle=False.")
    batched = isinstance(data, DataLoader) and data.batch_sampler is not None
    images: list[NDArray[Any]] = []
    labels: list[Any] = []
    for item in _items(data):
        image, *label = item if isinstance(item, tuple | list) else (item,)
        images.extend(np.asarray(plain_values(one, "X")) for one in (image if batched else [image]))
        if label:
            of_images = label[0] if batched else label[:1]
            labels.extend(one.item() if isinstance(one, Tensor) and one.ndim == 0 else one for one in of_images)
    if not images:
        raise DataError(f"X must hold images, got an empty {type(data).__name__}.")
    if labels and len(labels) != len(images):
        raise DataError(f"X must yield (image, label), got {len(images)} images and {len(labels)} labels.")
    return images, labels or None


def _items(data: Any) -> Iterable[Any]:
    """Yield what a ``Dataset`` or ``DataLoader`` holds; not every ``Dataset`` ends an iteration by itself."""
    if isinstance(data, DataLoader | IterableDataset):
        return data
    return (data[index] for index in range(len(data)))


def named_labels(images: ImageSet) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return images (n, channels, height, width), and the name of each one's class, shape (n,)."""
    return images.images, np.array(images.class_names)[images.labels]


def read_test_images(
    source: Any, layout: ImageLayout, preprocessing: dict[str, Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the test images of a source, or all if it has none, like training images, and their classes."""
    dataset = load(source, **size_for(source, layout.channels_first))
    images, labels = named_labels(dataset.test or dataset.train)
    if images.dtype == np.uint8:
        images = in_units(images, preprocessing)
    return layout.from_channels_first(images), labels
