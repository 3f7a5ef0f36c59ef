"""Evaluation of a model on images, checked before any work: predictions after every layer, and probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..base.errors import ConfigError
from ..base.intervals import wilson_interval
from ..data import Dataset, ImageSet
from ..model import Model
from ..network.network import Network

MAX_CELLS = 40_000  # numbers in all confusion matrices of the page
BINS = 10  # of confidence, equally wide
CHUNKS = 20  # of images per step of the progress


def evaluation_images(model: Model, dataset: Dataset) -> tuple[str, ImageSet]:
    """Return "test" and the test images, or else the validation images; refuse images that do not match the model."""
    found = dataset.test or dataset.validation
    if found is None:
        raise ConfigError(
            f"{dataset.name} must have test or validation images, got neither. Use another data set, or leave out "
            "images (--without-images; in Python, dataset=None)."
        )
    if found.shape != model.network.image_shape:
        raise ConfigError(
            f"{dataset.name} must have images of the network's shape {model.network.image_shape} "
            f"(channels, height, width), got {found.shape}. Use the data set of the training."
        )
    if tuple(dataset.class_names) != tuple(model.class_names):
        raise ConfigError(
            f"{dataset.name} must have the model's classes {_first_names(model.class_names)}, "
            f"got {_first_names(dataset.class_names)}. Use the data set of the training."
        )
    return "test" if dataset.test else "validation", found


@dataclass(frozen=True)
class Evaluation:
    """Predictions and probabilities for n images; ``depth`` layers are used for prediction."""

    split: str  # "test" or "validation"
    images: ImageSet
    predictions: NDArray[np.int32]  # class with the greatest output after each layer, (layers, n)
    probabilities: NDArray[np.float64]  # of the model, with its readout if it has one, (n, classes)
    depth: int
    readout: bool = False

    @property
    def labels(self) -> NDArray[np.int64]:
        """True classes, shape (n,)."""
        return self.images.labels

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Correctness of each prediction, shape (layers, n)."""
        return np.equal(self.predictions, self.labels)

    @property
    def accuracy(self) -> list[float]:
        """Accuracy after each layer."""
        return [float(share) for share in self.correct.mean(1)]

    @property
    def final(self) -> NDArray[np.int64]:
        """Predictions of the model, shape (n,)."""
        return np.asarray(self.probabilities.argmax(1), np.int64)

    @property
    def margins(self) -> NDArray[np.float64]:
        """Margin of each image in log-probability, shape (n,). Negative means wrong."""
        return margins(np.log(np.maximum(self.probabilities, 1e-300)), self.labels)

    def confusion(self, predictions: NDArray[Any]) -> NDArray[np.int64]:
        """Count images by true class (rows) and prediction (columns), shape (classes, classes)."""
        classes = self.probabilities.shape[1]
        pairs = self.labels * classes + predictions
        return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)

    def changes(self) -> dict[str, list[int]]:
        """Count, per layer, the images that become correct and those that become wrong. Before layer 1 none is."""
        correct = self.correct
        before = np.vstack([np.zeros_like(correct[:1]), correct[:-1]])
        return {"corrected": (correct & ~before).sum(1).tolist(), "newly_wrong": (~correct & before).sum(1).tolist()}

    def summary(self, best_depth: int) -> dict[str, Any]:
        """Return the figures of all images together, ready for JSON."""
        first, last, images = self.correct[0], self.final == self.labels, len(self.labels)
        classes = self.probabilities.shape[1]
        layers = depths_to_show(len(self.correct), best_depth, max(3, min(40, MAX_CELLS // classes**2)))
        shown = sorted({*layers, self.depth})
        matrices = [(layer, False, self.predictions[layer - 1]) for layer in shown]
        matrices += [(self.depth, True, self.final)] if self.readout else []
        share = float(last.mean())
        return {
            "split": self.split,
            "images": images,
            "readout": self.readout,
            "accuracy": share,
            "interval": wilson_interval(share, images),
            "majority": float(np.bincount(self.labels).max() / images),
            "correct_first": int(first.sum()),
            "correct_last": int(last.sum()),
            "corrected": int((~first & last).sum()),
            "newly_wrong": int((first & ~last).sum()),
            "changes": self.changes(),
            "confusions": [
                {"layer": layer, "readout": readout, "counts": self.confusion(predictions).ravel().tolist()}
                for layer, readout, predictions in matrices
            ],
            "calibration": calibration(self.probabilities, self.labels),
        }


@torch.inference_mode()
def evaluate(
    model: Model, split: str, images: ImageSet, progress: Callable[[int, int], None] | None = None
) -> Evaluation:
    """Evaluate images in chunks: one forward pass for the predictions of all layers, one for the probabilities.

    ``progress`` is called with the number of images done and with that of all.
    """
    network, layers = model.network, all_layers(model)
    predictions, probabilities = [], []
    for start in range(0, len(images), CHUNKS * network.stack.chunk):
        part = images.images[start : start + CHUNKS * network.stack.chunk]
        predictions.append(layers.stages(part, lambda output: output.argmax(1).to(torch.int32)))
        probabilities.append(model.predict_proba(part))
        if progress:
            progress(start + len(part), len(images))
    of_layers, likely = torch.cat(predictions, dim=1).numpy(), np.concatenate(probabilities)
    return Evaluation(split, images, of_layers, likely, network.used_layers, network.readout is not None)


def all_layers(model: Model) -> Model:
    """Return the model with all its layers in use, without its readout."""
    return replace(model, network=Network(model.network.stack))


def calibration(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> dict[str, Any]:
    """Compare confidence with accuracy in bins, from probabilities (n, classes) and labels (n,).

    The confidence is the largest probability of an image. ``error`` is the expected calibration error: the mean over
    images of the difference between mean confidence and accuracy of their bin.

    Examples
    --------
    >>> calibration(np.array([[0.9, 0.1], [0.7, 0.3]]), np.array([0, 1]))["error"]
    0.4
    """
    confidence, correct = probabilities.max(1), probabilities.argmax(1) == labels
    numbers = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = []
    for number in np.unique(numbers).tolist():
        inside = numbers == number
        bins.append(
            {
                "bin": number,
                "images": int(inside.sum()),
                "confidence": round(float(confidence[inside].mean()), 5),
                "accuracy": round(float(correct[inside].mean()), 5),
            }
        )
    error = sum(part["images"] * abs(part["confidence"] - part["accuracy"]) for part in bins) / len(labels)
    return {"bins": bins, "count": BINS, "error": round(error, 5), "confidence": round(float(confidence.mean()), 5)}


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
