"""Patches of the grey image, the mean of its channels, for grey stacks; beyond the paper.

A filter w on the grey image is the filter w/d on each of the d channels. So a grey layer is an ordinary layer whose
filters are learned from grey patches.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..patches import ClassMoments
from .bank import Filters, PatchSource


class GreyPatches:
    """Patch source that replaces the image's d channels, the last ones of another source, by their mean."""

    def __init__(self, source: PatchSource, colours: int) -> None:
        self._source, self._colours = source, colours
        self.channels, self.size = source.channels - colours + 1, source.size
        self.images, self.rows, self.columns = source.images, source.rows, source.columns
        self.labels, self.weights, self.zero_mean = source.labels, source.weights, source.zero_mean

    def covariance(self) -> Tensor:
        """Return the covariance of grey patches, float64."""
        return self._of_both(self._source.covariance())

    def mean(self) -> Tensor:
        """Return the mean grey patch, float64."""
        return self._grey(self._source.mean())

    def gather(self, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return the grey patches at the given places, float64."""
        return self._grey(self._source.gather(image, row, column))

    def class_moments(self, sets: int = 1) -> ClassMoments:
        """Return the sums over each class's grey patches."""
        sums = self._source.class_moments(sets)
        return ClassMoments(sums.images, self._of_both(sums.outer), self._grey(sums.by_position))

    def in_colour(self, filters: Filters) -> Filters:
        """Return the filters of the source's patches that respond like these filters of grey patches."""
        by_channel = filters.weights.view(-1, self.channels, self.size**2)
        maps, grey = by_channel[:, :-1], by_channel[:, -1:]
        weights = [maps, *[grey / self._colours] * self._colours]
        return Filters(torch.cat(weights, dim=1).flatten(1), filters.bias)

    def _grey(self, numbers: Tensor) -> Tensor:
        """Return (..., M) with the last d channels replaced by their mean."""
        by_channel = numbers.reshape(*numbers.shape[:-1], self._source.channels, self.size**2)
        maps, image = by_channel[..., : -self._colours, :], by_channel[..., -self._colours :, :]
        return torch.cat([maps, image.mean(-2, keepdim=True)], dim=-2).flatten(-2)

    def _of_both(self, products: Tensor) -> Tensor:
        """Return products (..., M, M) with both axes made grey."""
        return self._grey(self._grey(products).mT).mT
