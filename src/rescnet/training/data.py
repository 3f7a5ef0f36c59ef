"""Validated images and labels of a training run."""

from __future__ import annotations

import mmap
import warnings
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ..base.errors import DataError
from ..config.network import NetworkConfig
from ..network.inputs import CHUNK, SEVERAL, Array, InputWarning, as_images, as_labels, plain_values
from ..network.memory import RunSizes

LabelledImages: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True)
class TrainingData:
    """Images and labels that were checked against each other."""

    images: Tensor  # (n, channels, height, width)
    labels: Tensor  # int64, (n,)
    others: dict[str, tuple[Tensor, Tensor]]  # "validation" and "test", where there are such images
    file: mmap.mmap | None = None  # that the training images are mapped from, read-only
    weights: Tensor | None = None  # float64, (n,), all positive; an image of weight 2 counts like two. None: all are 1

    @staticmethod
    def of(
        images: Array,
        labels: Array | None,
        validation: LabelledImages | None = None,
        test: LabelledImages | None = None,
        weights: Array | None = None,
    ) -> TrainingData:
        """Check all images, labels and weights, before any work starts. Images of weight 0 are left out."""
        checked = as_images(images)
        data = TrainingData(
            checked, as_labels(labels, checked), {}, _file_of(images), as_weights(weights, len(checked))
        )
        if data.weights is not None and not bool(data.weights.all()):
            data = data.subset(data.weights.nonzero()[:, 0])
            as_labels(data.labels, data.images, name="labels of weighted images")
        for name, given in (("validation", validation), ("test", test)):
            if given is not None:
                other = as_images(given[0], data.image_shape, f"{name} images")
                data.others[name] = other, as_labels(given[1], other, data.classes, f"{name} labels")
        return data

    def subset(self, indices: Tensor) -> TrainingData:
        """Return some of the training images, and all others."""
        weights = None if self.weights is None else as_weights(self.weights[indices], len(indices))
        return replace(self, images=self.images[indices], labels=self.labels[indices], file=None, weights=weights)

    def hold_out(self, indices: Tensor) -> TrainingData:
        """Return the same images, of which some have become the validation set."""
        kept = torch.ones(len(self.labels), dtype=torch.bool)
        kept[indices] = False
        held = self.images[indices], self.labels[indices]
        return replace(self.subset(kept.nonzero()[:, 0]), others=self.others | {"validation": held})

    def join_validation(self) -> TrainingData:
        """Return the same images, all for training; those of the validation set have the mean weight."""
        others = dict(self.others)
        if (validation := others.pop("validation", None)) is None:
            return self
        images, labels = (torch.cat(pair) for pair in zip((self.images, self.labels), validation, strict=True))
        weights = self.weights
        if weights is not None:
            weights = torch.cat([weights, weights.mean().expand(len(validation[1]))])
        return TrainingData(images, labels, others, None, weights)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    @property
    def relative_weights(self) -> Tensor | None:
        """Weights that are 1 on average: only their ratios matter, and counts of images stay as they are."""
        return None if self.weights is None else self.weights / self.weights.mean()

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    def sizes(self, config: NetworkConfig, itemsize: int, half: bool, processes: int = 1) -> RunSizes:
        """Return the sizes of one process's shard, copies and views included."""
        others = sum(len(labels) for _, labels in self.others.values())
        train = -(-len(self.images) // processes) * config.copies_per_image
        others = -(-others // processes) * len(config.views)
        return RunSizes(self.image_shape, self.classes, train, others, itemsize, half)


def warn_of_equal_images(images: Tensor) -> None:
    """Warn if all images (n, channels, height, width) are the same: nothing can be learned from them."""
    parts = (images[:SEVERAL], *torch.split(images, CHUNK))
    if len(images) > 1 and all(bool((part == images[0]).all()) for part in parts):
        warnings.warn(f"images should differ, got {len(images):,} equal ones.", InputWarning, stacklevel=4)


def warn_of_absent_classes(labels: Tensor) -> None:
    """Warn if a class has no training image."""
    absent = (torch.bincount(labels) == 0).nonzero().flatten().tolist()
    if absent:
        first = ", ".join(map(str, absent[:3])) + (", …" if len(absent) > 3 else "")
        warnings.warn(
            f"labels should be numbered without gaps, got no image of {len(absent)} of {int(labels.max()) + 1} classes "
            f"({first}). They are hardly ever predicted.",
            InputWarning,
            stacklevel=4,
        )


def as_weights(weights: Any, images: int, name: str = "weights") -> Tensor | None:
    """Return the weights of images as float64 (n,); None if all are 1. ValueError says if they are no weights."""
    if weights is None:
        return None
    try:
        found = torch.tensor(np.asarray(plain_values(weights, name)).astype(np.float64))
    except (TypeError, ValueError):
        raise DataError(f"{name} must be numbers, got {type(weights).__name__}.") from None
    if found.shape != (images,):
        raise DataError(f"{name} must have shape ({images},), one per image, got {tuple(found.shape)}.")
    bad = ~(found.isfinite() & (found >= 0))
    if bool(bad.any()):
        raise DataError(f"{name} must be finite and at least 0, got {float(found[bad][0]):g}.")
    if not bool(found.any()):
        raise DataError(f"{name} must not all be zero.")
    return None if bool((found == 1).all()) else found


def _file_of(images: object) -> mmap.mmap | None:
    """Return the file that an array is mapped from, if it is mapped read-only."""
    if isinstance(images, np.memmap) and images.mode == "r":
        found: mmap.mmap | None = getattr(images, "_mmap", None)
        return found
    return None
