"""Validated images and labels of a training run."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from torch import Tensor

from ..config.network import NetworkConfig
from ..network.inputs import Array, as_images, as_labels
from ..network.memory import RunSizes

LabelledImages: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True)
class TrainingData:
    """Images and labels that were checked against each other and against the configuration."""

    images: Tensor  # (n, channels, height, width)
    labels: Tensor  # int64, (n,)
    others: dict[str, tuple[Tensor, Tensor]]  # "validation" and "test", where there are such images
    file: mmap.mmap | None = None  # that the training images are mapped from, read-only

    @staticmethod
    def of(
        config: NetworkConfig,
        images: Array,
        labels: Array,
        validation: LabelledImages | None = None,
        test: LabelledImages | None = None,
    ) -> TrainingData:
        """Check all images and labels, before any work starts."""
        checked = as_images(images)
        checked_labels = as_labels(labels, checked)
        shape = (checked.shape[1], checked.shape[2], checked.shape[3])
        config.check_images(shape[0], shape[1:])
        if config.patience and validation is None:
            raise ValueError(f"patience must be 0 without validation images, got {config.patience}.")
        classes, others = int(checked_labels.max()) + 1, {}
        for name, given in (("validation", validation), ("test", test)):
            if given is not None:
                other = as_images(given[0], shape, f"{name} images")
                others[name] = other, as_labels(given[1], other, classes, f"{name} labels")
        return TrainingData(checked, checked_labels, others, _file_of(images))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    def sizes(self, config: NetworkConfig, itemsize: int, half: bool, processes: int = 1) -> RunSizes:
        """Return the sizes of one process's shard, copies and views included."""
        others = sum(len(labels) for _, labels in self.others.values())
        train = -(-len(self.images) // processes) * config.copies_of_each
        others = -(-others // processes) * len(config.views)
        return RunSizes(self.image_shape, self.classes, train, others, itemsize, half)


def _file_of(images: object) -> mmap.mmap | None:
    """Return the file that an array is mapped from, if it is mapped read-only."""
    if isinstance(images, np.memmap) and images.mode == "r":
        found: mmap.mmap | None = getattr(images, "_mmap", None)
        return found
    return None
