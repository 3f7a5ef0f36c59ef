"""Patches of a stage's input, from which the filter banks learn; inputs are recomputed at each pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from ..stages.patches import (
    ClassMoments,
    PatchMoments,
    extract_patches,
    gather_patches,
    groups_of,
    remove_patch_means,
    sum_by_group,
)
from .config import Patches

FLAT = 1e-6  # a patch with a smaller standard deviation is flat; inputs are in [0, 1]
MOST_BYTES = 2**29  # of the products of whole images, all groups together
MOST_NUMBERS = 4096  # of an image whose products are computed


class StagePatches:
    """Patches k×k of all training images at a stage, normalised; k is ``size``, and a chunk has ``chunk`` images.

    ``inputs`` maps indices of images (n,) to the stage's input, (n·maps, c, h, w). ``maps`` per image are images of
    their own, 1 if filters span all maps; ``shape`` of one of them is (c, h, w). Labels (n,) are on the CPU.
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

        Patches without their own mean are not centred by the mean patch: PCANet's XXᵀ.
        """
        if self._covariance is None:
            plain, moments = self._normalisation == "plain", self._moments()
            self._covariance = moments.covariance() if plain else moments.outer / moments.count
        return self._covariance

    def mean(self) -> Tensor:
        """Return the mean patch, float64, shape (M,)."""
        return self._moments().mean()

    def class_moments(self, sets: int = 1) -> ClassMoments:
        """Return the sums over each class's patches, with the images of a class divided into ``sets``."""
        return self._sums(*groups_of(self._image_labels, sets))

    def gather(self, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return single patches, float64, shape (samples, M); only their images are computed."""
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
        """Sum patches by group: from products of whole images if these are small, otherwise from patches.

        A z-score differs from patch to patch, so products of images cannot give it. Images are ordered by group, so
        that most chunks have one group only.
        """
        order = group.argsort(stable=True)
        if self._normalisation != "z-score" and products_fit(self._shape, groups):
            parts = ((group[index], inputs) for index, inputs in self._parts(order))
            sums = sums_of_images(parts, groups, self._maps, self.size)
            return sums.without_patch_means(self.channels) if self.zero_mean else sums
        return sum_by_group(((group[index], self._patches(inputs)) for index, inputs in self._parts(order)), groups)

    def _moments(self) -> PatchMoments:
        """Sum all patches over all positions, in the same two ways."""
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
        """Yield the indices and the inputs of chunks of images, in the given order."""
        for index in torch.split(order, self._chunk):
            yield index, self._inputs(index)

    def _normalised(self, patches: Tensor) -> Tensor:
        if self._normalisation == "plain":
            return patches
        if self._normalisation == "z-score":
            return z_score_patches(patches, self.channels)
        return remove_patch_means(patches, self.channels)


def z_score_patches(patches: Tensor, channels: int) -> Tensor:
    """Return the z-scores of patches (..., c·k·k) per channel; flat patches give zeros."""
    by_channel = patches.reshape(*patches.shape[:-1], channels, -1)
    centred = by_channel - by_channel.mean(-1, keepdim=True)
    spread = centred.square().mean(-1, keepdim=True).sqrt()
    return torch.where(spread > FLAT, centred / spread.clamp_min(FLAT), 0).flatten(-2)


def products_fit(shape: tuple[int, int, int], groups: int) -> bool:
    """Return whether products of whole images (c, h, w) are small enough for this number of groups."""
    numbers = shape[0] * shape[1] * shape[2]
    return numbers <= MOST_NUMBERS and groups * numbers**2 * 8 <= MOST_BYTES


def sums_of_images(chunks: Iterable[tuple[Tensor, Tensor]], groups: int, maps: int, size: int) -> ClassMoments:
    """Sum the patches of each group from products of whole images, without extracting a patch.

    The product of two pixels of a patch is the product of two pixels of the image. With G = Σ x xᵀ over images as
    vectors of c·h·w numbers, Σ p pᵀ over all patches is a sum of windows of G, one per position. G is one large matrix
    product, which is fast. Patches would be k² copies of every image, multiplied a few columns at a time.

    A chunk has the group of each image, (n,), and its maps as images of their own, (n·maps, c, h, w).
    """
    count = products = totals = torch.empty(0)
    shape = torch.Size()
    for group, inputs in chunks:
        shape = inputs.shape[1:]
        images = inputs.view(-1, maps, shape.numel())
        if not len(count):
            count = inputs.new_zeros(groups).double()
            products = count.new_zeros(groups, shape.numel(), shape.numel())
            totals = count.new_zeros(groups, maps, shape.numel())
        for number in group.bincount().nonzero()[:, 0].tolist():
            members = images[group.to(images.device) == number] if groups > 1 else images
            flat = members.flatten(0, 1)
            count[number] += len(members)
            products[number] += (flat.T @ flat).double()
            totals[number] += members.sum(0).double()
    pixels = torch.arange(shape.numel(), dtype=torch.float64).view(1, *shape)
    windows = extract_patches(pixels, size)[0].long().to(products.device)  # (positions, M): the pixels of each patch
    outer = products.new_zeros(groups, windows.shape[1], windows.shape[1])
    for window in windows:
        outer += products[:, window[:, None], window]
    by_position = extract_patches(totals.view(-1, *shape), size).reshape(groups, -1, windows.shape[1])
    return ClassMoments(count, outer, by_position)
