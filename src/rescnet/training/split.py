"""Images on their way through a growing network."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..stages.images import ValueRange
from .map_store import MapStore


@dataclass
class Split:
    """Images that travel through the network as it grows.

    Attributes
    ----------
    images : MapStore, shape (n, d, h, w)
    labels : Tensor of int64, shape (n,)
    output : Tensor, shape (n, classes)
        Ỹ after the newest layer.
    maps : MapStore, shape (n, d_i, h, w)
        O of the newest layer; each chunk is overwritten by its successor.
    maps_range : ValueRange, shape (d_i,)
        Of these maps.
    """

    images: MapStore
    labels: Tensor
    output: Tensor
    maps: MapStore | None = None
    maps_range: ValueRange | None = None

    def accuracy(self) -> float:
        """Return the share of images whose greatest output is their class."""
        return float((self.output.argmax(1) == self.labels).double().mean())
