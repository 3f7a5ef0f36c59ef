"""Images that pass through a growing network, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from ..network.stack import Layer, LayerStack
from ..stages.images import ValueRange
from .stopwatch import Stopwatch
from .stores import MapStore, stream
from .workers import Workers


@dataclass
class ImageStream:
    """One process's images of a split, with the maps and outputs of the newest layer.

    ``per_image`` are consecutive entries of one image: itself and its changed copies, or, if they are ``averaged``, the
    views that its prediction is averaged over.
    """

    name: str  # training, validation or test
    images: MapStore  # (n, d, h, w)
    labels: Tensor  # int64, (n,)
    output: Tensor  # Ỹ after the newest layer, (n, classes)
    chunk: int = 1  # images per chunk; a multiple of ``per_image``
    per_image: int = 1
    averaged: bool = False
    weights: Tensor | None = None  # of each image in the sums, (n,), 1 on average over all processes; None: all are 1
    maps: MapStore | None = None  # O of the newest layer, (n, d_i, h, w); each chunk is overwritten by its successor
    maps_range: ValueRange | None = None  # of these maps, (d_i,)

    def accuracy(self, workers: Workers) -> float:
        """Return the fraction of correctly classified images, over all processes."""
        sets = self.output.view(-1, self.per_image, self.output.shape[1])
        shown = sets.mean(1) if self.averaged and self.per_image > 1 else sets[:, 0]
        right = int((shown.argmax(1) == self.labels[:: self.per_image]).sum())
        return workers.sum_int(right) / workers.sum_int(len(shown))

    def parts(self, together: int = 1) -> Iterator[slice]:
        """Yield the images of each chunk, or of some chunks together."""
        step = together * self.chunk
        for start in range(0, len(self.labels), step):
            yield slice(start, min(start + step, len(self.labels)))

    def image_range(self, dtype: torch.dtype) -> ValueRange:
        """Return the range of the images, channel by channel."""
        total = reduce(ValueRange.merge, map(ValueRange.of, self.images.chunks(self.chunk)))
        return ValueRange(total.low.to(dtype), total.high.to(dtype))

    def advance(
        self, stack: LayerStack, layer: Layer, watch: Stopwatch, empty: MapStore | None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Pass the images through a layer: yield each chunk's new maps, which replace the old or fill ``empty``."""
        after = self.maps if empty is None else empty
        assert after is not None
        seen = self.maps if stack.sees_maps(layer) else None
        found: ValueRange | None = None
        with watch.time("convolution"):
            convolution = stack.convolution(layer)
        for part, before, images in stream(self.chunk, seen, self.images):
            with watch.time("convolution"):
                maps, here = convolution(before, images)
                after.write(part, maps)
            with watch.time("scaling"):
                here = here or ValueRange.of(maps)
                found = here if found is None else found.merge(here)
            yield part, maps
        self.maps, self.maps_range = after, found
