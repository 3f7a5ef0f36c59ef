"""The patches of a stage's input, handed to the filter banks; inputs are made again whenever they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..stages.filters.class_moments import ClassMoments, groups_of, sum_by_group
from ..stages.patches import PatchMoments, extract_patches, gather_patches, remove_patch_means
from .config import Patches
from .image_products import products_fit, sums_of_images
from .network import z_score_patches


class StagePatches:
    """Patches of all training images at a stage, normalised as the member has it.

    Parameters
    ----------
    inputs : callable
        From indices of images (n,) to the stage's input, shape (n·maps, c, h, w): maps one by one where each is its own
        image, else maps is 1.
    labels : Tensor of int64, shape (n,)
        On the CPU.
    maps : int
        Maps of an image that are images of their own.
    shape : tuple of int
        (c, h, w) of one of them.
    size : int
        k.
    normalisation : {"zero-mean", "z-score", "plain"}
    chunk : int
        Images at a time.
    """

    def __init__(
        self,
        inputs: Callable[[Tensor], Tensor],
        labels: Tensor,
        maps: int,
        shape: tuple[int, int, int],
        size: int,
        normalisation: Patches,
        chunk: int,
    ) -> None:
        self._inputs, self._image_labels, self._maps = inputs, labels, maps
        self._normalisation, self._chunk = normalisation, chunk
        self.channels, self.size, self._shape = shape[0], size, shape
        self.rows, self.columns = shape[1] - size + 1, shape[2] - size + 1
        self.images = len(labels) * maps
        self.labels = labels.repeat_interleave(maps)
        self.weights: Tensor | None = None
        self.zero_mean = normalisation != "plain"
        self._covariance: Tensor | None = None

    def covariance(self) -> Tensor:
        """Return the patch covariance, float64, shape (M, M).

        Patches that have lost their own mean are not centred by the mean patch as well: PCANet's XXᵀ.
        """
        if self._covariance is None:
            plain, moments = self._normalisation == "plain", self._moments()
            self._covariance = moments.covariance() if plain else moments.outer / moments.count
        return self._covariance

    def mean(self) -> Tensor:
        """Return the mean patch, float64, shape (M,)."""
        return self._moments().mean()

    def class_moments(self, sets: int = 1) -> ClassMoments:
        """Return the sums over each class's patches, its images dealt out to so many sets."""
        return self._sums(*groups_of(self._image_labels, sets))

    def gather(self, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return the named patches, float64, shape (samples, M); only the images named are computed."""
        owners, place = torch.unique(image // self._maps, return_inverse=True)
        found = torch.empty(0)
        for start in range(0, len(owners), self._chunk):
            mine = ((place >= start) & (place < start + self._chunk)).nonzero()[:, 0]
            inputs = self._inputs(owners[start : start + self._chunk])
            local = (place[mine] - start) * self._maps + image[mine] % self._maps
            where = (index.to(inputs.device) for index in (local, row[mine], column[mine]))
            patches = self._normalised(gather_patches(inputs, self.size, *where).flatten(1).double())
            if not len(found):
                found = patches.new_empty(len(image), patches.shape[1])
            found[mine.to(found.device)] = patches
        return found

    def _sums(self, group: Tensor, groups: int) -> ClassMoments:
        """Sum patches by group: from products of whole images where those are few enough, else patch by patch.

        z-scores differ from patch to patch, so no product of images has them. Images come group after group, so that a
        chunk seldom has more than one.
        """
        order = group.argsort(stable=True)
        if self._normalisation != "z-score" and products_fit(self._shape, groups):
            parts = ((group[index], inputs) for index, inputs in self._parts(order))
            sums = sums_of_images(parts, groups, self._maps, self.size)
            return sums.without_patch_means(self.channels) if self.zero_mean else sums
        return sum_by_group(((group[index], self._patches(inputs)) for index, inputs in self._parts(order)), groups)

    def _moments(self) -> PatchMoments:
        """Sum all patches, in the same two ways; positions are not told apart."""
        if self._normalisation != "z-score" and products_fit(self._shape, 1):
            sums = self._sums(torch.zeros_like(self._image_labels), 1)
            return PatchMoments(self.images * self.rows * self.columns, sums.by_position[0].sum(0), sums.outer[0])
        total: PatchMoments | None = None
        for _, inputs in self._parts(torch.arange(len(self._image_labels))):
            moments = PatchMoments.of(self._patches(inputs))
            total = moments if total is None else total + moments
        assert total is not None
        return total

    def _patches(self, inputs: Tensor) -> Tensor:
        """Return all patches of some images, normalised, shape (n, maps·positions, M)."""
        patches = self._normalised(extract_patches(inputs, self.size))
        return patches.reshape(len(inputs) // self._maps, -1, patches.shape[2])

    def _parts(self, order: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the indices of some images and their input, until all were there in the order given."""
        for index in torch.split(order, self._chunk):
            yield index, self._inputs(index)

    def _normalised(self, patches: Tensor) -> Tensor:
        if self._normalisation == "plain":
            return patches
        if self._normalisation == "z-score":
            return z_score_patches(patches, self.channels)
        return remove_patch_means(patches, self.channels)
