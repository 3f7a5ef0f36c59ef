"""The patches of a layer's input, handed to the filter banks."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..kernels import patch_sums_for
from ..kernels.half_precision import add_dilated, raw_input, scale_covariance, scale_mean
from ..network.network import Network
from ..stages.filters.class_moments import ClassMoments, groups_of, sum_by_group
from ..stages.images import ValueRange
from ..stages.patches import PatchMoments, extract_patches, remove_means_of_products, span
from .distributed.workers import Workers
from .stores.make import store_images, stream
from .stores.store import MapStore

SAMPLES_AT_A_TIME = 65_536


class LayerPatches:
    """Patches of the scaled input ``[maps ; image]`` of all training images; the input itself is never held whole.

    Parameters
    ----------
    network : Network
        The layers before.
    input_range : ValueRange
        The range the new layer's input is scaled by.
    maps : MapStore, shape (n, d_i, h, w), or None before the first layer
    images : MapStore or Tensor, shape (n, d, h, w)
    labels : Tensor of int64, shape (n,)
    size : int
        k.
    chunk : int
        Images at a time.
    generator : torch.Generator
        Draws the patches of a sampled covariance.
    workers : Workers, optional
        ``maps`` and ``images`` are this worker's; ``labels``, and the images that are named, are those of all.
    mine : slice, optional
        Which of all images are this worker's.
    weights : Tensor of float64, shape (n,), optional
        How often an image is drawn, where patches are; on the CPU.
    dilation : int
        Pixels from one number of a patch to the next.
    """

    def __init__(
        self,
        network: Network,
        input_range: ValueRange,
        maps: MapStore | None,
        images: MapStore | Tensor,
        labels: Tensor,
        size: int,
        chunk: int,
        generator: torch.Generator,
        workers: Workers | None = None,
        mine: slice | None = None,
        weights: Tensor | None = None,
        dilation: int = 1,
    ) -> None:
        self._network, self._input_range, self._maps = network, input_range, maps
        self._image_store = store_images(images, input_range.low.device, "device")
        self._chunk, self._generator = chunk, generator
        self._mean_and_covariance: tuple[Tensor, Tensor] | None = None
        self._centres_each = network.config.centring == "each-patch"
        self.labels, self.weights = labels.cpu(), weights
        self.images, self.size = len(labels), size
        self._workers = workers or Workers()
        self._mine = mine or self._workers.share_of(self.images)
        self.channels = len(input_range.low)
        self.zero_mean = False
        self._dilation, self._span = dilation, span(size, dilation)
        self.rows, self.columns = images.shape[2] - self._span + 1, images.shape[3] - self._span + 1

    def covariance(self) -> Tensor:
        """Return the patch covariance, float64, shape (M, M): exact over all patches, or of a sample."""
        covariance = self._moments()[1]
        return remove_means_of_products(covariance, self.channels) if self._centres_each else covariance

    def mean(self) -> Tensor:
        """Return the mean patch, float64, shape (M,), of all patches or a sample, as filters see them: nothing off."""
        return self._moments()[0]

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and covariance, computed once."""
        if self._mean_and_covariance is None:
            samples = self._network.config.patch_samples
            moments = self._sampled_moments(samples) if samples else self._of_all_workers(self._exact_moments())
            mean, covariance = moments.mean(), moments.covariance()
            if self._network.half and not samples:
                folded = self._network.folded_scale(self._input_range, self._maps)
                mean, covariance = scale_mean(mean, folded, self.size), scale_covariance(covariance, folded, self.size)
            self._mean_and_covariance = mean, covariance
        return self._mean_and_covariance

    def gather(self, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return the named patches, float64, shape (samples, M)."""
        mine = (image >= self._mine.start) & (image < self._mine.stop)
        where = image[mine] - self._mine.start, row[mine], column[mine]
        taps = (..., slice(None, None, self._dilation), slice(None, None, self._dilation))
        maps = None if self._maps is None else self._maps.patches(self._span, *where)[taps]
        patches = self._image_store.patches(self._span, *where)[taps]
        # Scaling works pixel by pixel, so a patch is scaled like a small image.
        found = self._network.layer_input(self._input_range, maps, patches).flatten(1).double()
        if not self._workers.exchanges:
            return found
        whole = found.new_zeros(len(image), found.shape[1])
        whole[mine.to(whole.device)] = found
        self._workers.add_up(whole)  # each patch is one worker's, and zero with the others
        return whole

    def _of_all_workers(self, moments: PatchMoments) -> PatchMoments:
        """Return the sums over the patches of all workers."""
        self._workers.add_up(moments.total, moments.outer)
        return PatchMoments(self._workers.total(moments.count), moments.total, moments.outer)

    def class_moments(self, sets: int = 1) -> ClassMoments:
        """Return the sums over each class's patches, centred as in PCA, its images dealt out to so many sets."""
        group, groups = groups_of(self.labels, sets)
        sums = sum_by_group(self._grouped_patches(group[self._mine]), groups)
        self._workers.add_up(sums.images, sums.outer, sums.by_position)
        return sums.without_patch_means(self.channels) if self._centres_each else sums

    def _grouped_patches(self, group: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        for part, maps, images in stream(self._chunk, self._maps, self._image_store):
            inputs = self._network.layer_input(self._input_range, maps, images)
            yield group[part], extract_patches(inputs, self.size, self._dilation)

    def _exact_moments(self) -> PatchMoments:
        if self._network.half:
            return self._raw_moments()
        total: PatchMoments | None = None
        for _, maps, images in stream(self._chunk, self._maps, self._image_store):
            inputs = self._network.layer_input(self._input_range, maps, images)
            moments = PatchMoments.of(extract_patches(inputs, self.size, self._dilation))
            total = moments if total is None else total + moments
        assert total is not None
        return total

    def _raw_moments(self) -> PatchMoments:
        """Return the sums over patches that are not scaled yet, in half precision."""
        device, (height, width) = self._image_store.device, self._image_store.shape[2:]
        apart = height // self._dilation, width // self._dilation
        sums = patch_sums_for(device, self.channels, apart, self.size)
        for _, maps, images in stream(self._chunk, self._maps, self._image_store):
            scaled = self._network.scaled_images(self._input_range, images).half()
            add_dilated(sums, raw_input(self._network.activated(maps), scaled), self.size, self._dilation)
        return sums.moments()

    def _sampled_moments(self, samples: int) -> PatchMoments:
        total: PatchMoments | None = None
        while samples > 0:
            batch = (min(samples, SAMPLES_AT_A_TIME),)
            image = torch.randint(self.images, batch, generator=self._generator)
            row = torch.randint(self.rows, batch, generator=self._generator)
            column = torch.randint(self.columns, batch, generator=self._generator)
            moments = PatchMoments.of(self.gather(image, row, column))
            total = moments if total is None else total + moments
            samples -= batch[0]
        assert total is not None
        return total
