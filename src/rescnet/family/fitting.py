"""Learning a member: stage by stage the filters, then the classifier on what comes out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..formatting import show_bytes
from ..stages.discriminant import LinearHead, fit_head, one_vs_rest_lda
from ..stages.dual_moments import FEW, RowMoments
from ..stages.filters import learn_filters
from ..stages.images import ValueRange
from ..stages.moments import Moments
from ..stages.patches import remove_patch_means
from .config import FamilyConfig
from .network import FamilyNetwork, Stage, stage_input
from .patches import StagePatches
from .stacked_lda import fit_stacked_lda
from .svm import fit_svm
from .svm_features import SparseRows
from .workspace import images_at_a_time

KEPT_FROM = 3  # the stage from which on maps are kept, if they fit, instead of made anew from the images
SHARE_OF_MAPS = 0.5  # of the memory: the most that kept maps may take


@torch.inference_mode()
def fit_member(
    images: Tensor, labels: Tensor, classes: int, config: FamilyConfig, device: torch.device, memory: int
) -> FamilyNetwork:
    """Learn a member of the family.

    Parameters
    ----------
    images : Tensor, shape (n, channels, height, width)
    labels : Tensor of int64, shape (n,)
        Every class has an image.
    classes : int
    config : FamilyConfig
    device : torch.device
    memory : int
        Bytes that may be used.
    """
    return Fitting(images, labels, classes, config, device, memory).run()


class Fitting:
    """A member that grows; :func:`fit_member` tells what the arguments are."""

    def __init__(
        self, images: Tensor, labels: Tensor, classes: int, config: FamilyConfig, device: torch.device, memory: int
    ) -> None:
        shape = (images.shape[1], images.shape[2], images.shape[3])
        config.check_images(shape)
        # Small images cost little in float64, and then no prediction depends on the images it is made together with.
        dtype = torch.float64 if min(shape[1:]) < 16 else torch.float32
        everything = ValueRange(*(end(images).to(device, dtype).expand(shape[0]) for end in (torch.min, torch.max)))
        self.images, self.labels, self.classes, self.config = images, labels, classes, config
        self.device, self.memory = device, memory
        self.network = FamilyNetwork(config, shape, everything)
        self.chunk = images_at_a_time(config, shape, everything.low)
        self._kept: tuple[int, Tensor] | None = None  # a stage and its maps of all images

    def run(self) -> FamilyNetwork:
        """Learn everything."""
        config, network = self.config, self.network
        generator = torch.Generator().manual_seed(config.seed)
        if config.output == "pixels":
            samples = network.scaled(self.images).flatten(1)
            options = config.bank_options
            network.stacked = fit_stacked_lda(
                samples, self.labels, self.classes, config.discriminants, options, config.ridge, generator
            )
            return network
        for number in range(1, config.depth + 1):
            network.stages.append(self._learn_stage(number, generator))
            self._keep_maps(number)
            if config.reads == "all" or number == config.depth:
                network.heads[number] = self._fit_lda(number) if config.classifier == "lda" else self._fit_svm(number)
        return network

    def _learn_stage(self, number: int, generator: torch.Generator) -> Stage:
        """Learn the filters of a stage, counted from 1, from its input's patches."""
        config = self.config
        chosen = self._images_to_learn_from()
        one = self._input(number, chosen[:1])  # (maps, c, h, w)
        maps, shape = len(one), (one.shape[1], one.shape[2], one.shape[3])
        size, count = config.size_of_filter(number), config.filters[number - 1]
        source = StagePatches(
            lambda index: self._input(number, chosen[index]),
            self.labels[chosen],
            maps,
            shape,
            size,
            config.patches,
            self.chunk,
        )
        filters = learn_filters(config.bank_of(number), source, count, generator, config.bank_options)
        weights = filters.weights
        if config.patches != "plain":  # then the convolution takes the patch's mean off
            weights = remove_patch_means(weights, shape[0])
        dtype = self.network.input_range.low.dtype
        return Stage(
            weights.view(count, shape[0], size, size).to(self.device, dtype), filters.bias.to(self.device, dtype)
        )

    def _images_to_learn_from(self) -> Tensor:
        """Return the indices of the images filters are learnt from."""
        n, asked = len(self.images), self.config.patch_images
        return torch.arange(n) if not 0 < asked < n else torch.linspace(0, n - 1, asked).long()

    def _input(self, number: int, index: Tensor) -> Tensor:
        """Return a stage's input for some images: what its filters see."""
        return stage_input(self._maps(number - 1, index), number, self.config)

    def _maps(self, number: int, index: Tensor) -> Tensor:
        """Return the maps of a stage for some images, from the nearest that is kept; stage 0 is the image."""
        done, maps = 0, None
        if self._kept is not None and self._kept[0] <= number:
            done, kept = self._kept
            maps = kept[index.to(kept.device)]
        if maps is None:
            maps = self.network.scaled(self.images[index])
        for stage in range(done + 1, number + 1):
            maps = self.network.maps(stage, maps).view(len(index), -1, *maps.shape[2:])
        return maps

    def _keep_maps(self, number: int) -> None:
        """Keep the maps of a stage for those that follow, where there are many stages and memory enough."""
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
        """Solve a one-vs-rest LDA on a stage's features, which stream; those of few images are held."""
        features, images = self.config.features(self.network.image_shape, number), len(self.images)
        by_rows = images <= FEW * features
        # Features, and as they are centred, their products and those factorised; or a scatter, its factor and copies.
        numbers = 2 * images * (features + images) if by_rows else 4 * features**2
        what = f"{features:,} features of {images:,} images" if by_rows else f"the scatter of {features:,} features"
        self._refuse_more_than_memory(numbers * self.network.input_range.low.dtype.itemsize, what)
        kind = RowMoments if by_rows else Moments
        moments: Moments | None = None
        for index in torch.split(torch.arange(images), self.chunk):
            part = self.network.features(self._maps(number, index))
            targets = torch.nn.functional.one_hot(self.labels[index], self.classes).to(part)
            if moments is None:
                moments = kind.zeros(part.mean(0), self.classes)
            moments.add(part, targets)
        assert moments is not None
        head, _ = fit_head(moments, one_vs_rest_lda, self.config.ridge)
        return head

    def _fit_svm(self, number: int) -> LinearHead:
        """Fit the SVM on a stage's features: in a dense matrix on a GPU, in a sparse one on a CPU."""
        features = self._dense_features(number) if self._is_dense(number) else self._sparse_features(number)
        self._kept = None
        config = self.config
        head = fit_svm(
            features, self.labels, self.classes, config.svm_cost, config.seed, self.memory, config.svm_tolerance
        )
        dtype = self.network.input_range.low.dtype
        return LinearHead(
            head.weights.to(self.device, dtype), head.bias.to(self.device, dtype), head.present.to(self.device)
        )

    def _is_dense(self, number: int) -> bool:
        if self.config.output == "second-order":
            return True
        features = self.config.features(self.network.image_shape, number)
        return self.device.type == "cuda" and 2 * features * len(self.images) < 0.8 * self.memory

    def _dense_features(self, number: int) -> Tensor:
        features = self.config.features(self.network.image_shape, number)
        dtype = torch.float16 if self.device.type == "cuda" else self.network.input_range.low.dtype
        size = features * len(self.images) * dtype.itemsize
        self._refuse_more_than_memory(size, f"{features:,} features of {len(self.images):,} images")
        matrix = torch.empty(len(self.images), features, dtype=dtype, device=self.device)
        for index in torch.split(torch.arange(len(self.images)), self.chunk):
            matrix[index[0] : index[-1] + 1] = self.network.features(self._maps(number, index))
        return matrix

    def _sparse_features(self, number: int) -> Any:
        """Return the features as a CSR matrix of float32 numbers, shape (n, D)."""
        rows = SparseRows(self.config.features(self.network.image_shape, number))
        for index in torch.split(torch.arange(len(self.images)), self.chunk):
            rows.append(self.network.features(self._maps(number, index)))
        return rows.matrix()

    def _refuse_more_than_memory(self, size: int, what: str) -> None:
        if size > self.memory:
            raise ValueError(
                f"{what} take {show_bytes(size)} but {show_bytes(self.memory)} may be used: allow more memory, or take "
                f"fewer filters or a coarser pyramid."
            )
