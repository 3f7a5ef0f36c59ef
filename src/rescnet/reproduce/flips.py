"""Horizontal flips, computed in advance as in the paper: mirrored copies to learn from, predictions averaged over both.

The option ``augment = "flip"`` makes the same copies on the fly; here they are made as the paper made them. Copies come
after the originals, so the two halves of a split belong together image by image.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..data import ImageSet
from ..training.history import LayerRecord
from ..training.split import Split
from ..training.trainer import Trainer


def with_mirrored(images: ImageSet) -> ImageSet:
    """Return the images (n, c, h, w) followed by their mirror images, (2n, c, h, w), labels likewise."""
    both = np.concatenate([images.images, images.images[..., ::-1]])
    return replace(images, images=both, labels=np.concatenate([images.labels, images.labels]))


def averaged_accuracy(split: Split) -> float:
    """Return the accuracy of outputs averaged over each image and its mirror image."""
    half = len(split.labels) // 2
    output = split.output[:half] + split.output[half:]
    return float((output.argmax(1) == split.labels[:half]).double().mean())


def average_record(trainer: Trainer, record: LayerRecord) -> LayerRecord:
    """Return a layer's record with averaged accuracies, and put it in the trainer's history."""
    found: dict[str, Any] = {f"{name}_accuracy": averaged_accuracy(split) for name, split in trainer.others.items()}
    averaged = replace(record, train_accuracy=averaged_accuracy(trainer.training), **found)
    trainer.history.records[-1] = averaged
    return averaged
