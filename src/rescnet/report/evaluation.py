"""Images let through the network once: what it answered after every layer, and its outputs after the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..network.inputs import as_images
from ..network.network import Network
from .model_view import Shown

MOST_CELLS = 40_000  # numbers of all confusion matrices on the page


@dataclass(frozen=True)
class Evaluation:
    """What the network made of n images.

    Attributes
    ----------
    shown : Shown
        The images and where they are from.
    answers : ndarray of int32, shape (layers, n)
        The class of the greatest output after each layer.
    outputs : ndarray of float32, shape (n, classes)
        Ỹ after the last layer.
    """

    shown: Shown
    answers: NDArray[np.int32]
    outputs: NDArray[np.float32]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The true classes, shape (n,)."""
        return self.shown.images.labels

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the answer was right, shape (layers, n)."""
        return np.equal(self.answers, self.labels)

    @property
    def accuracy(self) -> list[float]:
        """Share of right answers after each layer."""
        return [float(share) for share in self.right.mean(1)]

    @property
    def margins(self) -> NDArray[np.float32]:
        """The true class's output less the greatest other one after the last layer, shape (n,): below 0 is wrong."""
        return margins(self.outputs, self.labels)

    def confusion(self, layer: int) -> NDArray[np.int64]:
        """Count images by true class (rows) and answer after a layer (columns), shape (classes, classes)."""
        classes = self.outputs.shape[1]
        pairs = self.labels * classes + self.answers[layer - 1]
        return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)

    def changes(self) -> dict[str, list[int]]:
        """Count, for each layer, the images it turned right and those it turned wrong; layer 1 starts from nothing."""
        right = self.right
        before = np.vstack([np.zeros_like(right[:1]), right[:-1]])
        return {"right": (right & ~before).sum(1).tolist(), "wrong": (~right & before).sum(1).tolist()}

    def summary(self, chosen: int) -> dict[str, Any]:
        """Return what the page shows of all images together."""
        right = self.right
        classes = self.outputs.shape[1]
        layers = depths_to_show(len(right), chosen, max(3, min(40, MOST_CELLS // classes**2)))
        return {
            "split": self.shown.split,
            "images": len(self.labels),
            "right_first": int(right[0].sum()),
            "right_last": int(right[-1].sum()),
            "corrected": int((~right[0] & right[-1]).sum()),
            "spoiled": int((right[0] & ~right[-1]).sum()),
            "changes": self.changes(),
            "confusions": [{"layer": layer, "counts": self.confusion(layer).ravel().tolist()} for layer in layers],
        }


@torch.inference_mode()
def evaluate(network: Network, shown: Shown) -> Evaluation:
    """Let the images through in chunks; one pass gives the answers of all layers."""
    images = as_images(shown.images.images, network.image_shape)
    first = network.layers[0].weights
    answers, outputs = [], []
    for part in torch.split(images, network.stack.chunk):
        output, staged = torch.empty(0), []
        for output in network.stack.staged_outputs(part.to(first.device)):
            staged.append(output.argmax(1).to(torch.int32).cpu())
        answers.append(torch.stack(staged))
        outputs.append(output.float().cpu())
    return Evaluation(shown, torch.cat(answers, dim=1).numpy(), torch.cat(outputs).numpy())


def margins(outputs: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[Any]:
    """Return the true class's output less the greatest other one.

    Parameters
    ----------
    outputs : ndarray, shape (..., n, classes)
    labels : ndarray of int64, shape (n,)

    Returns
    -------
    ndarray, shape (..., n)
    """
    true = np.arange(outputs.shape[-1]) == labels[:, None]  # (n, classes)
    own = np.where(true, outputs, 0).sum(-1)
    return np.asarray(own - np.where(true, -np.inf, outputs).max(-1))


def depths_to_show(layers: int, chosen: int, most: int) -> list[int]:
    """Return about ``most`` depths: the first, the last, the chosen one, and others, closer together early on."""
    if layers <= most:
        return list(range(1, layers + 1))
    spaced = {round(depth) for depth in np.geomspace(1, layers, most)} if most > 3 else set()
    return sorted(spaced | {1, chosen, layers})
