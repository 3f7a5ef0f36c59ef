"""Images on their way through a growing network."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Split:
    """Images that travel through the network as it grows.

    Attributes
    ----------
    images : Tensor, shape (n, d, h, w)
    labels : Tensor of int64, shape (n,)
    output : Tensor, shape (n, classes)
        Ỹ after the newest layer.
    maps : Tensor, shape (n, d_i, h, w)
        O of the newest layer; each chunk is overwritten by its successor.
    """

    images: Tensor
    labels: Tensor
    output: Tensor
    maps: Tensor | None = None

    def accuracy(self) -> float:
        """Return the share of images whose greatest output is their class."""
        return float((self.output.argmax(1) == self.labels).double().mean())
