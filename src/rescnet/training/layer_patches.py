"""Patches of a layer's input, for the filter banks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import torch
from torch import Tensor

from ..fused import input_of_sums, patch_sums_for
from ..fused.half_precision import FoldedScale, scale_covariance, scale_mean
from ..network.stack import LayerStack
from ..stages.images import ValueRange
from ..stages.patches import ClassMoments, PatchMoments, extract_patches, groups_of, sum_by_group
from .stores import MapStore, stream
from .workers import Workers


@dataclass(frozen=True)
class LayerInput:
    """One process's shard of a layer's input ``[maps ; image]``, which is never held as a whole."""

    stack: LayerStack  # the layers before
    input_range: ValueRange  # by which the input is scaled
    maps: MapStore | None  # (n, d_i, h, w); None for a layer that sees the image alone
    images: MapStore  # (n, d, h, w)
    chunk: int  # images per chunk

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the scaled input of each chunk, shape (m, channels, h, w)."""
        for part, maps, images in stream(self.chunk, self.maps, self.images):
            yield part, self.stack.layer_input(self.input_range, maps, images)


class LayerPatches:
    """Patches (k, k) of the scaled input of all training images: a :class:`~rescnet.stages.filters.PatchSource`.

    ``labels`` (n,) are the classes of all processes' images. ``shard`` is this process's part of them, which
    ``layer_input`` holds; by default an equal one. ``weights`` (n,) are those of all images, 1 on average.
    """

    def __init__(
        self,
        layer_input: LayerInput,
        labels: Tensor,
        size: int,
        workers: Workers | None = None,
        shard: slice | None = None,
        weights: Tensor | None = None,
    ) -> None:
        self._input, self._workers = layer_input, workers or Workers()
        self._mean_and_covariance: tuple[Tensor, Tensor] | None = None
        self.labels, self.images, self.size = labels.cpu(), len(labels), size
        self._shard = shard or self._workers.shard(self.images)
        self.weights = None if weights is None else weights.cpu()
        self._roots = None if weights is None else weights[self._shard].sqrt().to(layer_input.images.device)
        self.channels = len(layer_input.input_range.low)
        self.zero_mean = False
        height, width = layer_input.images.shape[2:]
        self.rows, self.columns = height - size + 1, width - size + 1

    def covariance(self) -> Tensor:
        """Return the covariance of all patches, float64, shape (M, M)."""
        return self._moments()[1]

    def mean(self) -> Tensor:
        """Return the mean patch, float64, shape (M,)."""
        return self._moments()[0]

    def gather(self, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return the named patches, float64, shape (samples, M)."""
        here, mine = self._input, (image >= self._shard.start) & (image < self._shard.stop)
        where = image[mine] - self._shard.start, row[mine], column[mine]
        maps = None if here.maps is None else here.maps.patches(self.size, *where)
        patches = here.images.patches(self.size, *where)
        # Scaling works pixel by pixel, so a patch is scaled like a small image.
        found = here.stack.layer_input(here.input_range, maps, patches).flatten(1).double()
        if not self._workers.exchanges:
            return found
        whole = found.new_zeros(len(image), found.shape[1])
        whole[mine.to(whole.device)] = found
        self._workers.all_reduce(whole)  # each patch belongs to one process, and is zero on the others
        return whole

    def class_moments(self, sets: int = 1) -> ClassMoments:
        """Return the sums over each class's patches, with its images divided into n sets."""
        group, groups = groups_of(self.labels, sets)
        mine = group[self._shard]
        patches = ((mine[part], extract_patches(inputs, self.size)) for part, inputs in self._input.chunks())
        sums = sum_by_group(patches, groups, self._roots)
        self._workers.all_reduce(sums.images, sums.outer, sums.by_position)
        return sums

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and covariance, computed once."""
        if self._mean_and_covariance is None:
            half, here = self._input.stack.half, self._input
            moments = self._raw_moments() if half else self._exact_moments()
            self._workers.all_reduce(moments.total, moments.outer)
            moments = PatchMoments(self._workers.sum_int(moments.count), moments.total, moments.outer)
            mean, covariance = moments.mean(), moments.covariance()
            if half:
                folded = here.stack.folded_scale(here.input_range, here.maps is not None)
                mean, covariance = scale_mean(mean, folded, self.size), scale_covariance(covariance, folded, self.size)
            self._mean_and_covariance = mean, covariance
        return self._mean_and_covariance

    def _exact_moments(self) -> PatchMoments:
        if self._roots is None:
            return reduce(add, (PatchMoments.of_images(x, self.size) for _, x in self._input.chunks()))
        roots = self._roots.to(self._input.input_range.low.dtype)[:, None, None, None]
        return reduce(add, (PatchMoments.weighted(x, roots[part], self.size) for part, x in self._input.chunks()))

    def _raw_moments(self) -> PatchMoments:
        """Return the sums over patches that are not scaled yet, in half precision."""
        here, (height, width) = self._input, self._input.images.shape[2:]
        sums = patch_sums_for(here.images.device, self.channels, (height, width), self.size)
        image = FoldedScale.of(here.stack.first_range(here.input_range))
        weighted_sum: Tensor | float = 0.0  # of all images, (h, w, c)
        for part, maps, images in stream(here.chunk, here.maps, here.images):
            raw = input_of_sums(maps, images, image)
            if self._roots is not None:
                roots = self._roots[part].half()[:, None, None, None]
                raw *= roots
                weighted_sum = weighted_sum + (raw * roots).sum(0, dtype=torch.float32).double()
            sums.add(raw)
        if isinstance(weighted_sum, float):
            return sums.moments()
        total = extract_patches(weighted_sum.permute(2, 0, 1)[None, : self.channels], self.size).sum((0, 1))
        return replace(sums.moments(), total=total)
