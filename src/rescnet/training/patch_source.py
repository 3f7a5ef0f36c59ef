"""The patches of a layer's input, handed to the filter banks."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..kernels.half_layer import scale_covariance, scaled_patch_moments
from ..network import Network
from ..stages.filters.class_moments import ClassMoments, groups_of, sum_by_group
from ..stages.images import ValueRange
from ..stages.patches import PatchMoments, extract_patches, gather_patches, remove_patch_means

SAMPLES_AT_A_TIME = 65_536


class LayerPatches:
    """Patches of the scaled input ``[maps ; image]`` of all training images; the input itself is never held whole.

    Parameters
    ----------
    network : Network
        The layers before.
    input_range : ValueRange
        The range the new layer's input is scaled by.
    maps : Tensor, shape (n, d_i, h, w), or None before the first layer
    images : Tensor, shape (n, d, h, w)
    labels : Tensor of int64, shape (n,)
    size : int
        k.
    chunk : int
        Images at a time.
    generator : torch.Generator
        Draws the patches of a sampled covariance.
    """

    def __init__(
        self,
        network: Network,
        input_range: ValueRange,
        maps: Tensor | None,
        images: Tensor,
        labels: Tensor,
        size: int,
        chunk: int,
        generator: torch.Generator,
    ) -> None:
        self._network, self._input_range, self._maps, self._image_tensor = network, input_range, maps, images
        self._chunk, self._generator = chunk, generator
        self._covariance: Tensor | None = None
        self._folds = network.half and network.config.centring == "mean-patch"
        self.labels = labels.cpu()
        self.images, self.size = len(images), size
        self.channels = len(input_range.low)
        self.zero_mean = False
        self.rows, self.columns = images.shape[2] - size + 1, images.shape[3] - size + 1

    def covariance(self) -> Tensor:
        """Return the patch covariance, float64, shape (M, M): exact over all patches, or of a sample; computed once."""
        if self._covariance is None:
            samples = self._network.config.patch_samples
            moments = self._sampled_moments(samples) if samples else self._exact_moments()
            covariance = moments.covariance()
            if self._folds and not samples:
                folded = self._network.folded_scale(self._input_range, self._maps)
                covariance = scale_covariance(covariance, folded, self.size)
            self._covariance = covariance
        return self._covariance

    def gather(self, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return the named patches, float64, shape (samples, M)."""
        device = self._image_tensor.device
        where = image.to(device), row.to(device), column.to(device)
        maps = None if self._maps is None else gather_patches(self._maps, self.size, *where)
        patches = gather_patches(self._image_tensor, self.size, *where)
        # Scaling works pixel by pixel, so a patch is scaled like a small image.
        return self._network.layer_input(self._input_range, maps, patches).flatten(1).double()

    def class_moments(self, sets: int = 1) -> ClassMoments:
        """Return the sums over each class's patches, centred as in PCA, its images dealt out to so many sets."""
        group, groups = groups_of(self.labels, sets)
        return sum_by_group(self._grouped_patches(group), groups)

    def _grouped_patches(self, group: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, self.images, self._chunk):
            part = slice(start, start + self._chunk)
            maps = None if self._maps is None else self._maps[part]
            inputs = self._network.layer_input(self._input_range, maps, self._image_tensor[part])
            yield group[part], self._centred(extract_patches(inputs, self.size))

    def _exact_moments(self) -> PatchMoments:
        total: PatchMoments | None = None
        for start in range(0, self.images, self._chunk):
            part = slice(start, start + self._chunk)
            maps = None if self._maps is None else self._maps[part]
            if self._folds:
                images = self._network.scaled_images(self._input_range, self._image_tensor[part]).half()
                moments = scaled_patch_moments(maps, images, self.size)
            else:
                inputs = self._network.layer_input(self._input_range, maps, self._image_tensor[part])
                moments = PatchMoments.of(self._centred(extract_patches(inputs, self.size)))
            total = moments if total is None else total + moments
        assert total is not None
        return total

    def _sampled_moments(self, samples: int) -> PatchMoments:
        total: PatchMoments | None = None
        while samples > 0:
            batch = (min(samples, SAMPLES_AT_A_TIME),)
            image = torch.randint(self.images, batch, generator=self._generator)
            row = torch.randint(self.rows, batch, generator=self._generator)
            column = torch.randint(self.columns, batch, generator=self._generator)
            moments = PatchMoments.of(self._centred(self.gather(image, row, column)))
            total = moments if total is None else total + moments
            samples -= batch[0]
        assert total is not None
        return total

    def _centred(self, patches: Tensor) -> Tensor:
        each = self._network.config.centring == "each-patch"
        return remove_patch_means(patches, self.channels) if each else patches
