"""Evaluation of a network on images, checked before any work: predictions after every layer, and final outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..data import Dataset, ImageSet
from ..network.inputs import as_images
from ..network.model import Model
from ..network.network import Network

MAX_CELLS = 40_000  # numbers in all confusion matrices of the page


@dataclass(frozen=True)
class EvaluationImages:
    """The images a network is evaluated on; ``split`` is "test" or "validation"."""

    split: str
    images: ImageSet


def evaluation_images(model: Model, dataset: Dataset | None) -> EvaluationImages | None:
    """Return the test images, or else the validation images; refuse images that do not match the model."""
    if dataset is None:
        return None
    found = dataset.test or dataset.validation
    if found is None:
        raise ValueError(
            f"{dataset.name} must have test or validation images, got neither. Use another data set, or leave out "
            "images (--without-images; in Python, dataset=None)."
        )
    if found.shape != model.network.image_shape:
        raise ValueError(
            f"{dataset.name} must have images of the network's shape {model.network.image_shape} "
            f"(channels, height, width), got {found.shape}. Use the data set of the training."
        )
    if tuple(dataset.class_names) != tuple(model.class_names):
        raise ValueError(
            f"{dataset.name} must have the model's classes {_first_names(model.class_names)}, "
            f"got {_first_names(dataset.class_names)}. Use the data set of the training."
        )
    return EvaluationImages("test" if dataset.test else "validation", found)


@dataclass(frozen=True)
class Evaluation:
    """Predictions and outputs for n images."""

    source: EvaluationImages
    predictions: NDArray[np.int32]  # class with the greatest output after each layer, (layers, n)
    outputs: NDArray[np.float32]  # Ỹ after the last layer, (n, classes)

    @property
    def labels(self) -> NDArray[np.int64]:
        """True classes, shape (n,)."""
        return self.source.images.labels

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Correctness of each prediction, shape (layers, n)."""
        return np.equal(self.predictions, self.labels)

    @property
    def accuracy(self) -> list[float]:
        """Accuracy after each layer."""
        return [float(share) for share in self.correct.mean(1)]

    @property
    def margins(self) -> NDArray[np.float32]:
        """Margin of each image after the last layer, shape (n,). Negative means wrong."""
        return margins(self.outputs, self.labels)

    def confusion(self, layer: int) -> NDArray[np.int64]:
        """Count images by true class (rows) and prediction after a layer (columns), shape (classes, classes)."""
        classes = self.outputs.shape[1]
        pairs = self.labels * classes + self.predictions[layer - 1]
        return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)

    def changes(self) -> dict[str, list[int]]:
        """Count, per layer, the images that become correct and those that become wrong. Before layer 1 none is."""
        correct = self.correct
        before = np.vstack([np.zeros_like(correct[:1]), correct[:-1]])
        return {"corrected": (correct & ~before).sum(1).tolist(), "newly_wrong": (~correct & before).sum(1).tolist()}

    def summary(self, best_depth: int) -> dict[str, Any]:
        """Return the figures of all images together, ready for JSON."""
        correct = self.correct
        classes = self.outputs.shape[1]
        layers = depths_to_show(len(correct), best_depth, max(3, min(40, MAX_CELLS // classes**2)))
        return {
            "split": self.source.split,
            "images": len(self.labels),
            "correct_first": int(correct[0].sum()),
            "correct_last": int(correct[-1].sum()),
            "corrected": int((~correct[0] & correct[-1]).sum()),
            "newly_wrong": int((correct[0] & ~correct[-1]).sum()),
            "changes": self.changes(),
            "confusions": [{"layer": layer, "counts": self.confusion(layer).ravel().tolist()} for layer in layers],
        }


@torch.inference_mode()
def evaluate(network: Network, source: EvaluationImages) -> Evaluation:
    """Evaluate images in chunks; one forward pass gives the predictions of all layers."""
    images = as_images(source.images.images, network.image_shape)
    first = network.layers[0].weights
    predictions, outputs = [], []
    for chunk in torch.split(images, network.stack.chunk):
        output, staged = torch.empty(0), []
        for output in network.stack.staged_outputs(chunk.to(first.device)):
            staged.append(output.argmax(1).to(torch.int32).cpu())
        predictions.append(torch.stack(staged))
        outputs.append(output.float().cpu())
    return Evaluation(source, torch.cat(predictions, dim=1).numpy(), torch.cat(outputs).numpy())


def margins(outputs: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[Any]:
    """Return the output of the true class minus the greatest other output: (..., n, classes) → (..., n)."""
    true = np.arange(outputs.shape[-1]) == labels[:, None]  # (n, classes)
    own = np.where(true, outputs, 0).sum(-1)
    return np.asarray(own - np.where(true, -np.inf, outputs).max(-1))


def depths_to_show(layers: int, best_depth: int, limit: int) -> list[int]:
    """Return about ``limit`` depths: the first, the last, the best, and others at growing distances."""
    if layers <= limit:
        return list(range(1, layers + 1))
    spaced = {round(depth) for depth in np.geomspace(1, layers, limit)} if limit > 3 else set()
    return sorted(spaced | {1, best_depth, layers})


def _first_names(names: Sequence[str], limit: int = 4) -> str:
    return ", ".join(names[:limit]) + (f", … ({len(names)})" if len(names) > limit else "")
