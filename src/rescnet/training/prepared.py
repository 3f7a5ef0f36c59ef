"""Prepared images as a store, and how the preparation is learnt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from ..config.network import NetworkConfig
from ..stages.images import ValueRange
from ..stages.patches import PatchMoments, extract_patches
from ..stages.preparation import Preparation, whitening_filters, window_moments
from .distributed.workers import Workers
from .stores.derived import MadeImages
from .stores.store import MapStore

PATCH_BYTES = 32 * 2**20  # of patches written out at a time
LEARNT_FROM = 10_000  # images: a covariance of a few hundred numbers a side needs no more


class PreparedImages(MadeImages):
    """Images that are prepared when a chunk is asked for: nothing more is kept than what they were."""

    def __init__(self, images: MapStore, preparation: Preparation) -> None:
        super().__init__(images.shape, preparation.weights.dtype, images.device)
        self._images, self._preparation = images, preparation

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Yield prepared images."""
        for images in self._images.chunks(size):
            yield self._preparation(images)

    def take(self, image: Tensor) -> Tensor:
        """Return some images, prepared."""
        return self._preparation(self._images.take(image))


def learn_preparation(
    images: MapStore, image_range: ValueRange, config: NetworkConfig, workers: Workers, first: int, total: int
) -> Preparation:
    """Learn how images are prepared, from at most 10,000 of them, evenly spaced among those of all workers.

    Parameters
    ----------
    images : MapStore, shape (n, channels, h, w)
        This worker's.
    image_range : ValueRange
        Of the images of all workers, in the floating type wanted.
    first, total : int
        The number of its first image among all, and how many there are.
    """
    step = -(-total // LEARNT_FROM)
    chosen = torch.arange(-(-first // step) * step, first + len(images), step) - first
    channels, device, dtype = images.shape[1], images.device, image_range.low.dtype
    of_one = prod(images.shape[1:]) * max(1, config.whitening) ** 2 * dtype.itemsize
    parts = [part for part in torch.split(chosen, max(1, PATCH_BYTES // of_one)) if len(part)]
    floor = torch.zeros(2, dtype=torch.float64, device=device)
    if config.contrast:
        for part in parts:
            _, deviation = window_moments(images.take(part).to(dtype), config.contrast)
            floor += torch.stack([deviation.sum(dtype=torch.float64), floor.new_tensor(deviation.numel())])
        workers.add_up(floor)
    level = (floor[0] / floor[1].clamp_min(1)).to(dtype)
    even = Preparation.of_contrast(config.contrast, level, image_range.low, image_range.high)
    if not config.whitening:
        return even
    size = channels * config.whitening**2
    sums = PatchMoments(0, level.new_zeros(size).double(), level.new_zeros(size, size).double())
    for part in parts:
        sums = sums + PatchMoments.of(extract_patches(even(images.take(part)), config.whitening))
    workers.add_up(sums.total, sums.outer)
    whole = PatchMoments(workers.total(sums.count), sums.total, sums.outer)
    weights, bias = whitening_filters(whole, channels, config.whitening_ridge)
    found = replace(even, weights=weights.to(dtype), bias=bias.to(dtype))
    workers.send_from_first(found.floor, found.weights, found.bias)
    return found
