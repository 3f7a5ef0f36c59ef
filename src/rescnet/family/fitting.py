"""Training of a member: the filters stage by stage, then the classifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..base.errors import ConfigError
from ..base.text import show_bytes
from ..config.defaults import SMALL_SIDE
from ..stages.discriminant import LinearHead
from ..stages.filters import learn_filters
from ..stages.images import ValueRange
from ..stages.moments import Moments, RowMoments, solves_by_rows
from ..stages.patches import remove_patch_means
from ..training.stopwatch import trim_heap
from .config import FamilyConfig
from .network import FamilyNetwork, Stage, images_at_a_time, stage_input
from .patches import StagePatches
from .stacked_lda import fit_lda, fit_stacked_lda
from .svm import fit_svm

KEPT_FROM = 3  # members with at least 3 stages keep maps, if they fit, instead of recomputing them
SHARE_OF_MAPS = 0.5  # largest share of the memory for kept maps


@torch.inference_mode()
def fit_member(
    images: Tensor, labels: Tensor, classes: int, config: FamilyConfig, device: torch.device, memory: int
) -> FamilyNetwork:
    """Learn a member of the family from images (n, channels, height, width) and labels (n,).

    Every class must have an image. ``memory`` is in bytes.
    """
    return Fitting(images, labels, classes, config, device, memory).run()


class Fitting:
    """One training run; the parameters are those of :func:`fit_member`."""

    def __init__(
        self, images: Tensor, labels: Tensor, classes: int, config: FamilyConfig, device: torch.device, memory: int
    ) -> None:
        shape = (images.shape[1], images.shape[2], images.shape[3])
        config.check_images(shape)
        # Small images cost little in float64. A prediction then does not depend on the other images of its chunk.
        dtype = torch.float64 if min(shape[1:]) < SMALL_SIDE else torch.float32
        everything = ValueRange(*(end(images).to(device, dtype).expand(shape[0]) for end in (torch.min, torch.max)))
        self.images, self.labels, self.classes, self.config = images, labels, classes, config
        self.device, self.memory = device, memory
        self.network = FamilyNetwork(config, shape, everything)
        self.chunk = images_at_a_time(config, shape, everything.low)
        self._kept: tuple[int, Tensor] | None = None  # a stage and its maps of all images

    def run(self) -> FamilyNetwork:
        """Learn all stages and classifiers."""
        config, network = self.config, self.network
        generator = torch.Generator().manual_seed(config.seed)
        if config.output == "pixels":
            samples = network.scaled(self.images).flatten(1)
            network.stacked = fit_stacked_lda(samples, self.labels, self.classes, config, generator)
            return network
        for number in range(1, config.depth + 1):
            network.stages.append(self._learn_stage(number, generator))
            self._keep_maps(number)
            if config.reads == "all" or number == config.depth:
                network.heads[number] = self._fit_lda(number) if config.classifier == "lda" else self._fit_svm(number)
        return network

    def _learn_stage(self, number: int, generator: torch.Generator) -> Stage:
        """Learn the filters of a stage, counted from 1, from the patches of its input."""
        config = self.config
        chosen = self._images_to_learn_from()
        one = self._input(number, chosen[:1])  # (maps, c, h, w)
        maps, shape = len(one), (one.shape[1], one.shape[2], one.shape[3])
        size, count = config.size_of_filter(number), config.filters[number - 1]
        inputs, labels = (lambda index: self._input(number, chosen[index])), self.labels[chosen]
        source = StagePatches(inputs, labels, maps, shape, size, config.patches, self.chunk)
        filters = learn_filters(config.bank_of(number), source, count, generator, config.bank_options)
        weights = filters.weights
        if config.patches != "plain":  # so that convolution removes the patch mean
            weights = remove_patch_means(weights, shape[0])
        place = self.device, self.network.input_range.low.dtype
        return Stage(weights.view(count, shape[0], size, size).to(*place), filters.bias.to(*place))

    def _images_to_learn_from(self) -> Tensor:
        """Return the indices of the images that filters are learned from."""
        n, asked = len(self.images), self.config.patch_images
        return torch.arange(n) if not 0 < asked < n else torch.linspace(0, n - 1, asked).long()

    def _input(self, number: int, index: Tensor) -> Tensor:
        """Return the input of a stage's filters for some images."""
        return stage_input(self._maps(number - 1, index), number, self.config)

    def _maps(self, number: int, index: Tensor) -> Tensor:
        """Return the maps of a stage for some images, from kept maps if possible; stage 0 is the image."""
        if self._kept is not None and self._kept[0] <= number:
            done, kept = self._kept
            maps = kept[index.to(kept.device)]
        else:
            done, maps = 0, self.network.scaled(self.images[index])
        for stage in range(done + 1, number + 1):
            maps = self.network.maps(stage, maps).view(len(index), -1, *maps.shape[2:])
        return maps

    def _keep_maps(self, number: int) -> None:
        """Keep the maps of a stage for later stages, if there are many stages and enough memory."""
        config, (_, h, w) = self.config, self.network.image_shape
        dtype = self.network.input_range.low.dtype
        size = len(self.images) * config.maps(number) * h * w * dtype.itemsize
        before = 0 if self._kept is None else self._kept[1].nbytes
        deep = config.depth >= KEPT_FROM and number < config.depth + (config.reads == "all")
        if not deep or size + before > SHARE_OF_MAPS * self.memory:
            return
        maps = torch.empty(len(self.images), config.maps(number), h, w, dtype=dtype, device=self.device)
        for index in torch.split(torch.arange(len(self.images)), self.chunk):
            maps[index[0] : index[-1] + 1] = self._maps(number, index)
        self._kept = number, maps

    def _fit_lda(self, number: int) -> LinearHead:
        """Fit a one-vs-rest LDA to a stage's features. They are streamed; those of few images are held in memory."""
        features, images = self.config.features(self.network.image_shape, number), len(self.images)
        kind = RowMoments if solves_by_rows(images, features, half=False) else Moments
        itemsize = self.network.input_range.low.dtype.itemsize
        size, what = kind.pair_bytes(images, features, itemsize), f"the scatter of {features:,} features"
        if kind is RowMoments:
            size, what = size + images * features * itemsize, f"{features:,} features of {images:,} images"
        self._check_memory(size, what)
        chunks = ((part, self.labels[index]) for index, part in self._features(number))
        return fit_lda(chunks, self.classes, self.config.ridge, kind)

    def _features(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield indices of images (n,), chunk by chunk, and their features at a stage, shape (n, D)."""
        for index in torch.split(torch.arange(len(self.images)), self.chunk):
            yield index, self.network.features(self._maps(number, index))

    def _fit_svm(self, number: int) -> LinearHead:
        """Fit the SVM to a stage's features: histograms are dense on a GPU if they fit, and sparse on a CPU."""
        columns = self.config.features(self.network.image_shape, number)
        fits = self.device.type == "cuda" and 2 * columns * len(self.images) < 0.8 * self.memory
        dense = self.config.output == "second-order" or fits
        features = self._dense_features(number, columns) if dense else self._sparse_features(number)
        self._kept = None
        cost, seed, tolerance = self.config.svm_cost, self.config.seed, self.config.svm_tolerance
        head = fit_svm(features, self.labels, self.classes, cost, seed, self.memory, tolerance)
        return head.to(self.device, self.network.input_range.low.dtype)

    def _dense_features(self, number: int, columns: int) -> Tensor:
        dtype = torch.float16 if self.device.type == "cuda" else self.network.input_range.low.dtype
        size = columns * len(self.images) * dtype.itemsize
        self._check_memory(size, f"{columns:,} features of {len(self.images):,} images")
        matrix = torch.empty(len(self.images), columns, dtype=dtype, device=self.device)
        for index, part in self._features(number):
            matrix[index[0] : index[-1] + 1] = part
        return matrix

    def _sparse_features(self, number: int) -> Any:
        """Return the features as a CSR matrix of float32 numbers, shape (n, D)."""
        from scipy.sparse import vstack

        parts = []
        for _, part in self._features(number):
            parts.append(sparse_rows(part))
            trim_heap()  # the small arrays of a part would keep the holes between the large ones of a chunk
        return vstack(parts, format="csr")

    def _check_memory(self, size: int, what: str) -> None:
        if size > self.memory:
            raise ConfigError(
                f"max_memory must be at least {show_bytes(size)} for {what}, got {show_bytes(self.memory)}. Use fewer "
                f"filters or a coarser pyramid."
            )


def sparse_rows(rows: Tensor) -> Any:
    """Return dense rows (n, D) as a SciPy CSR matrix of float32 numbers."""
    from scipy.sparse import csr_matrix

    places = rows.nonzero(as_tuple=True)
    values, indices = rows[places].float().cpu().numpy(), [place.int().cpu().numpy() for place in places]
    return csr_matrix((values, tuple(indices)), shape=tuple(rows.shape))
