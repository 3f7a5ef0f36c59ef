"""Images on their way through a growing network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..network import Layer, Network
from ..stages.images import ValueRange
from .history import Stopwatch
from .map_store import MapStore
from .streaming import stream
from .workers import Workers


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

    def accuracy(self, workers: Workers) -> float:
        """Return the share of images, of all workers, whose greatest output is their class."""
        right = int((self.output.argmax(1) == self.labels).sum())
        return workers.total(right) / workers.total(len(self.labels))

    def parts(self, chunk: int) -> Iterator[slice]:
        """Yield which images are in each chunk."""
        for start in range(0, len(self.labels), chunk):
            yield slice(start, min(start + chunk, len(self.labels)))

    def image_range(self, chunk: int, dtype: torch.dtype) -> ValueRange:
        """Return the range of the images, channel by channel."""
        total: ValueRange | None = None
        for images in self.images.chunks(chunk):
            here = ValueRange.of(images)
            total = here if total is None else total.merge(here)
        assert total is not None
        return ValueRange(total.low.to(dtype), total.high.to(dtype))

    def through(
        self, network: Network, layer: Layer, chunk: int, watch: Stopwatch, empty: MapStore | None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Let the images through a layer: their maps are overwritten by those yielded, chunk by chunk.

        Parameters
        ----------
        empty : MapStore or None
            Where maps are put if there are none yet.
        """
        after = self.maps if empty is None else empty
        assert after is not None
        found: ValueRange | None = None
        for part, before, images in stream(chunk, self.maps, self.images):
            with watch.time("convolution"):
                maps = network.maps(layer, before, images)
                after.write(part, maps)
            with watch.time("scaling"):
                here = ValueRange.of(maps)
                found = here if found is None else found.merge(here)
            yield part, maps
        self.maps, self.maps_range = after, found
