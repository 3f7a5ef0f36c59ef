"""A learned member of the family: stages of filters, features, a classifier.

O⁽ⁱ⁾ = O⁽ⁱ⁻¹⁾ ∗ W⁽ⁱ⁾         each map as its own image (L1·L2·… maps), or across all maps
F    = histograms(sign(O)) or pyramid(second_order(O))
y    = argmax F·V + b        of the last stage, or posteriors added over all stages
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from ..fused import pool_maps
from ..stages.convolution import convolve
from ..stages.discriminant import LinearHead, sigmoid_posterior
from ..stages.histograms import histogram_features
from ..stages.images import ValueRange, min_max_scale
from ..stages.patches import extract_patches
from ..stages.pooling import pool_features, pyramid_pool
from ..stages.second_order import second_order_pool
from .config import FamilyConfig, Patches
from .patches import z_score_patches
from .stacked_lda import StackedLDA

LARGEST_WORKSPACE = {"cpu": 32 * 2**20, "cuda": 4 * 2**30}  # bytes; a CPU reuses memory as small as this


@dataclass(frozen=True)
class Stage:
    """Filters of one stage."""

    weights: Tensor  # (d, c, k, k); c is 1 where each map is its own image
    bias: Tensor  # (d,)


@dataclass(repr=False)
class FamilyNetwork:
    """A learned member."""

    config: FamilyConfig
    image_shape: tuple[int, int, int]  # (channels, height, width)
    input_range: ValueRange  # of the training images; images are scaled by it
    stages: list[Stage] = field(default_factory=list)
    heads: dict[int, LinearHead] = field(default_factory=dict)  # by stage, from 1: the last or all; none if stacked
    stacked: StackedLDA | None = None

    def scaled(self, images: Tensor) -> Tensor:
        """Return images (n, c, h, w) scaled to [0, 1]."""
        low = self.input_range.low
        return min_max_scale(images.to(low.device, low.dtype), self.input_range)

    def maps(self, number: int, inputs: Tensor) -> Tensor:
        """Return the maps of a stage, counted from 1, shape (n, maps, h, w), from the previous maps or the image."""
        stage, config = self.stages[number - 1], self.config
        inputs = stage_input(inputs, number, config)
        return filter_maps(inputs, stage, config.patches).contiguous()  # a GPU may choose another order

    def staged_maps(self, images: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield the number of each stage and its maps, for one chunk of images."""
        maps = self.scaled(images)
        for number in range(1, len(self.stages) + 1):
            maps = self.maps(number, maps)
            yield number, maps.view(len(images), -1, *maps.shape[2:])

    def features(self, maps: Tensor) -> Tensor:
        """Return the features of a stage's maps (n, maps, h, w), shape (n, D)."""
        config, size = self.config, self.image_shape[1:]
        grid, cells = config.grid(size), config.pyramid_of(size)
        if config.output == "histogram":
            return histogram_features(maps, config.code_bits, grid, cells, config.pooling, config.normalisation)
        if cells is not None and config.rectify:
            if config.z_score == "channel":
                return pool_maps(maps, [(grid, cells)], config.keeps_diagonal, config.pooling)
            return pool_features(maps, [(grid, cells)], config.z_score, config.keeps_diagonal, config.pooling)
        blocks = second_order_pool(maps.relu() if config.rectify else maps, grid, config.z_score, config.keeps_diagonal)
        return blocks.flatten(1) if cells is None else pyramid_pool(blocks, cells, config.pooling)

    def scores(self, images: Tensor) -> Tensor:
        """Return the class scores of one chunk of images, shape (n, classes)."""
        if self.stacked is not None:
            return self.stacked.scores(self.scaled(images).flatten(1))
        found = []
        for number, maps in self.staged_maps(images):
            if head := self.heads.get(number):
                found.append(head.scores(self.features(maps)))
                if self.config.reads == "all":
                    found[-1] = sigmoid_posterior(found[-1], head.present, self.config.sigmoid_scale)
        return sum(found[1:], found[0])

    @torch.inference_mode()
    def outputs(self, images: Tensor) -> Tensor:
        """Return the scores of any number of images, computed in chunks, on the CPU, shape (n, classes)."""
        chunk = images_at_a_time(self.config, self.image_shape, self.input_range.low)
        return torch.cat([self.scores(part).cpu() for part in torch.split(images, chunk)])

    def tensors(self) -> list[Tensor]:
        """Return all learned tensors."""
        learned = [self.input_range.low, self.input_range.high]
        for stage in self.stages:
            learned += [stage.weights, stage.bias]
        for head in [*self.heads.values(), *([self.stacked.head] if self.stacked else [])]:
            learned += [head.weights, head.bias]
        return learned + ([self.stacked.weights, self.stacked.bias] if self.stacked else [])

    def to(self, device: torch.device) -> FamilyNetwork:
        """Return the network on a device."""
        return FamilyNetwork(
            self.config,
            self.image_shape,
            ValueRange(self.input_range.low.to(device), self.input_range.high.to(device)),
            [Stage(stage.weights.to(device), stage.bias.to(device)) for stage in self.stages],
            {number: head.to(device) for number, head in self.heads.items()},
            self.stacked.to(device) if self.stacked else None,
        )


def images_at_a_time(config: FamilyConfig, image_shape: tuple[int, int, int], like: Tensor) -> int:
    """Return the number of images per chunk, on the device and in the floating type of ``like``."""
    channels, h, w = image_shape
    numbers, maps = channels * h * w, channels
    for stage in range(1, config.depth + 1):
        patches = maps * config.size_of_filter(stage) ** 2 * h * w
        grown = config.maps(stage)
        numbers = max(numbers, 2 * patches, 3 * (maps + grown) * h * w)
        maps = grown
    if config.output == "histogram":
        counts = prod(config.grid((h, w)).shape) * maps // config.code_bits * 2**config.code_bits
        numbers = max(numbers, 5 * counts)
    elif config.output == "second-order":
        numbers = max(numbers, prod(config.grid((h, w)).shape) * 4 * maps * maps)
    return max(1, LARGEST_WORKSPACE[like.device.type] // (numbers * like.dtype.itemsize))


def stage_input(inputs: Tensor, number: int, config: FamilyConfig) -> Tensor:
    """Return the input of a stage's filters: pooled maps if configured, and with ``each-map`` one map per image."""
    if number == 1:
        return inputs
    if config.between == "mean-pool":
        inputs = F.avg_pool2d(inputs, 3, 1, 1, count_include_pad=False)
    return inputs.flatten(0, 1)[:, None] if config.growth == "each-map" else inputs


def filter_maps(inputs: Tensor, stage: Stage, patches: Patches) -> Tensor:
    """Filter ``inputs`` (n, c, h, w) at every pixel, with zero padding, shape (n, d, h, w).

    Filters of zero-mean patches have zero mean themselves, so convolution removes the patch mean. A z-score divides by
    the standard deviation of each patch, which convolution cannot do: patches are extracted, normalised and multiplied.
    """
    if patches != "z-score":
        return convolve(inputs, stage.weights, stage.bias)
    (d, c, k, _), (n, _, h, w) = stage.weights.shape, inputs.shape
    before, after = (k - 1) // 2, k // 2
    rows = z_score_patches(extract_patches(F.pad(inputs, (before, after, before, after)), k), c)
    return (rows @ stage.weights.flatten(1).T + stage.bias).transpose(1, 2).reshape(n, d, h, w)
