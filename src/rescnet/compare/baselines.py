"""Stock baselines: SVC and random forest on pixels, and HOG with a linear SVM."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ..base.errors import ConfigError
from ..family.svm import DenseFeatures, newton_svm
from ..network.inputs import as_images

Predict = Callable[[NDArray[Any]], Tensor]
"""Maps images (n, channels, height, width) to classes (n,)."""
Baseline = Callable[[NDArray[Any], NDArray[Any], torch.device, int], tuple[Predict, int]]
"""Fits images (n, channels, height, width) and classes (n,), with a seed; returns also the bytes of the model."""

MOST_FOR_SVC = 20_000  # images: the time of SVC grows with their square
SVC_COST, TREES, ORIENTATIONS = 10.0, 300, 9
HOG_COST = 0.01  # C of the SVM, chosen on held-out training images of CIFAR-10 and MNIST


def fit_svc(images: NDArray[Any], labels: NDArray[Any], device: torch.device, seed: int) -> tuple[Predict, int]:
    """Fit an SVC with an RBF kernel on pixels."""
    from sklearn.svm import SVC

    if len(images) > MOST_FOR_SVC:
        raise ConfigError(f"svc must have at most {MOST_FOR_SVC:,} training images, got {len(images):,}. Use fewer.")
    return _fit_pixels(SVC(C=SVC_COST, cache_size=1000), images, labels)  # its γ divides by the variance of the pixels


def fit_forest(images: NDArray[Any], labels: NDArray[Any], device: torch.device, seed: int) -> tuple[Predict, int]:
    """Fit a random forest on pixels."""
    from sklearn.ensemble import RandomForestClassifier

    return _fit_pixels(RandomForestClassifier(TREES, n_jobs=-1, random_state=seed), images, labels)


def _fit_pixels(model: Any, images: NDArray[Any], labels: NDArray[Any]) -> tuple[Predict, int]:
    def pixels(part: NDArray[Any]) -> NDArray[np.float32]:
        return part.reshape(len(part), -1).astype(np.float32) / np.float32(255 if part.dtype == np.uint8 else 1)

    model.fit(pixels(images), labels)
    return lambda new: torch.from_numpy(model.predict(pixels(new))), len(pickle.dumps(model))


def fit_hog_svm(images: NDArray[Any], labels: NDArray[Any], device: torch.device, seed: int) -> tuple[Predict, int]:
    """Fit a linear SVM on histograms of oriented gradients."""
    present, numbered = np.unique(labels, return_inverse=True)
    features, targets = hog(images, device), torch.from_numpy(numbered).to(device)
    head = newton_svm(DenseFeatures(features), features.shape[1], targets, len(present), HOG_COST, 0.001)
    classes, size = torch.from_numpy(present), head.weights.nbytes + head.bias.nbytes
    return lambda new: classes[(hog(new, device) @ head.weights + head.bias).argmax(1).cpu()], size


BASELINES: dict[str, Baseline] = {"svc": fit_svc, "forest": fit_forest, "hog-svm": fit_hog_svm}


def hog(images: NDArray[Any], device: torch.device, chunk: int = 1000) -> Tensor:
    """Return histograms of oriented gradients (Dalal and Triggs 2005) of images (n, c, h, w), shape (n, D).

    Cells have an eighth of the shorter side, and nine orientations without sign. Blocks of 2×2 cells overlap.
    """
    side = min(images.shape[2:])
    cell = max(2, side // 8)
    parts = []
    for start in range(0, len(images), chunk):
        x = F.pad(as_images(images[start : start + chunk]).to(device).float(), (1, 1, 1, 1), mode="replicate")
        right, down = x[:, :, 1:-1, 2:] - x[:, :, 1:-1, :-2], x[:, :, 2:, 1:-1] - x[:, :, :-2, 1:-1]
        strongest = (right**2 + down**2).argmax(1, keepdim=True)  # channel
        right, down = right.gather(1, strongest), down.gather(1, strongest)
        strength = (right**2 + down**2).sqrt()
        angle = torch.atan2(down, right) / pi % 1 * ORIENTATIONS
        lower = angle.floor()
        votes = torch.zeros(len(x), ORIENTATIONS, *strength.shape[2:], device=device)
        for bins, share in ((lower, 1 - angle + lower), (lower + 1, angle - lower)):
            votes.scatter_add_(1, bins.long() % ORIENTATIONS, strength * share)
        blocks = F.unfold(F.avg_pool2d(votes, cell), 2)  # (n, 4·orientations, blocks)
        clipped = F.normalize(blocks, dim=1).clamp_max(0.2)
        parts.append(F.normalize(clipped, dim=1).flatten(1))
    return torch.cat(parts)
