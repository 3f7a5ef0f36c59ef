"""The patches of a stage's input, handed to the filter banks; inputs are made again whenever they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..stages.patches import PatchMoments, extract_patches, gather_patches, remove_patch_means
from .config import Patches
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
        self.channels, self.size = shape[0], size
        self.rows, self.columns = shape[1] - size + 1, shape[2] - size + 1
        self.images = len(labels) * maps
        self.labels = labels.repeat_interleave(maps)
        self.zero_mean = normalisation != "plain"
        self._covariance: Tensor | None = None

    def covariance(self) -> Tensor:
        """Return the patch covariance, float64, shape (M, M), computed once.

        Patches that have lost their own mean are not centred by the mean patch as well: PCANet's XXᵀ.
        """
        if self._covariance is None:
            total: PatchMoments | None = None
            for _, inputs in self._parts():
                patches = extract_patches(inputs, self.size)
                if self._normalisation == "z-score":
                    patches = z_score_patches(patches, self.channels)
                moments = PatchMoments.of(patches)
                total = moments if total is None else total + moments
            assert total is not None
            if self._normalisation == "plain":
                self._covariance = total.covariance()
            else:  # means are linear, so they can be taken off the sums: the same, and no pass over the patches
                second = total.outer / total.count
                half = remove_patch_means(second, self.channels)
                self._covariance = remove_patch_means(half.T, self.channels)
        return self._covariance

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

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield labels (n,) and patches (n, maps·positions, M) of all images, some at a time."""
        for index, inputs in self._parts():
            patches = self._normalised(extract_patches(inputs, self.size))
            positions = self._maps * self.rows * self.columns
            yield self._image_labels[index].to(inputs.device), patches.reshape(len(index), positions, -1)

    def _parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        for index in torch.arange(len(self._image_labels)).split(self._chunk):
            yield index, self._inputs(index)

    def _normalised(self, patches: Tensor) -> Tensor:
        if self._normalisation == "plain":
            return patches
        if self._normalisation == "z-score":
            return z_score_patches(patches, self.channels)
        return remove_patch_means(patches, self.channels)
