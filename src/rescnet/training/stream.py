"""Images on their way through a growing network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..network.network import Layer, Network
from ..stages.activation import activate
from ..stages.images import ValueRange
from ..stages.residual import look_ahead
from .distributed.workers import Workers
from .stopwatch import Stopwatch
from .stores.make import stream
from .stores.store import MapStore


@dataclass
class Split:
    """Images that travel through the network as it grows.

    Attributes
    ----------
    images : MapStore, shape (n, d, h, w)
    labels : Tensor of int64, shape (n,)
    output : Tensor, shape (n, classes)
        Ỹ after the newest layer.
    before : Tensor, shape (n, classes), or None
        Ỹ after the layer before that, where there is momentum.
    momentum : float
        μ.
    maps : MapStore, shape (n, d_i, h, w)
        O of the newest layer; each chunk is overwritten by its successor.
    maps_range : ValueRange, shape (d_i,)
        Of these maps as the next layer reads them.
    chunk : int
        Images at a time; whole sets of copies.
    copies : int
        How many of them are one image: itself and its copies, or the views its prediction is the mean of.
    averaged : bool
        Whether they are such views.
    """

    images: MapStore
    labels: Tensor
    output: Tensor
    chunk: int = 1
    copies: int = 1
    averaged: bool = False
    before: Tensor | None = None
    momentum: float = 0.0
    maps: MapStore | None = None
    maps_range: ValueRange | None = None

    def accuracy(self, workers: Workers | None = None) -> float:
        """Return the share of images, of all workers, whose greatest output is their class."""
        workers = workers or Workers()
        sets = self.output.view(-1, self.copies, self.output.shape[1])
        shown = sets.mean(1) if self.averaged and self.copies > 1 else sets[:, 0]
        right = int((shown.argmax(1) == self.labels[:: self.copies]).sum())
        return workers.total(right) / workers.total(len(shown))

    def ahead(self, rows: slice | Tensor) -> Tensor:
        """Return what the next layer corrects of some images, shape (m, classes): Ỹ, or where momentum takes it."""
        output = self.output[rows]
        return output if self.before is None else look_ahead(output, self.before[rows], self.momentum)

    def change(self, part: slice, output: Tensor) -> None:
        """Replace the output of some images by that after a further layer."""
        if self.before is not None:
            self.before[part] = self.output[part]
        self.output[part] = output

    def parts(self) -> Iterator[slice]:
        """Yield which images are in each chunk."""
        for start in range(0, len(self.labels), self.chunk):
            yield slice(start, min(start + self.chunk, len(self.labels)))

    def image_range(self, dtype: torch.dtype) -> ValueRange:
        """Return the range of the images, channel by channel."""
        total: ValueRange | None = None
        for images in self.images.chunks(self.chunk):
            here = ValueRange.of(images)
            total = here if total is None else total.merge(here)
        assert total is not None
        return ValueRange(total.low.to(dtype), total.high.to(dtype))

    def through(
        self, network: Network, layer: Layer, watch: Stopwatch, empty: MapStore | None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Let the images through a layer: their maps are overwritten by those yielded, chunk by chunk.

        Parameters
        ----------
        empty : MapStore or None
            Where maps are put if there are none yet.
        """
        after = self.maps if empty is None else empty
        assert after is not None
        seen = self.maps if network.sees_maps(layer) else None
        found: ValueRange | None = None
        for part, before, images in stream(self.chunk, seen, self.images):
            with watch.time("convolution"):
                maps = network.maps(layer, before, images)
                after.write(part, maps)
            with watch.time("scaling"):
                here = ValueRange.of(activate(maps, network.config.activation))
                found = here if found is None else found.merge(here)
            yield part, maps
        self.maps, self.maps_range = after, found
