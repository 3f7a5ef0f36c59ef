"""Sketches of all images, collected while the layers are learned (:mod:`rescnet.numerics.sketch`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ...config.network import NetworkConfig
from ...fused import add_column_sums, sketch_features
from ...network.memory import RunSizes
from ...numerics.sketch import sketch, sketch_size, sketch_weights
from ..workers import Workers

SHARE = 6  # sketches stay on a GPU, or in float32 on a CPU, if they take at most a sixth of the memory


@dataclass(frozen=True)
class SketchPlan:
    """Place, type and bytes of the sketches that a kernel readout is fitted to."""

    bytes: int = 0  # in the budget
    on_device: bool = False
    in_float32: bool = False
    of_others: bool = False  # of validation and test images too; else these pass the layers again

    @staticmethod
    def of(
        config: NetworkConfig, sizes: RunSizes, rows: int, device: torch.device, budget: int, least: int
    ) -> SketchPlan:
        """Plan the sketches of the readout's rows, and of validation and test images where these are seen once.

        ``least`` are the bytes of the smallest plan without them.
        """
        if not config.has_kernel:
            return SketchPlan()
        one = config.layers * sketch_size(config, sizes.image_shape[1:]) * torch.float16.itemsize
        others = 0 if config.mirrors_kernel or len(config.views) > 1 else sizes.other
        needed, share = (rows + others) * one, budget // SHARE
        fits = needed <= share
        if device.type == "cuda":  # else they are on the host
            return SketchPlan(needed if fits else 0, fits, of_others=others > 0)
        if not fits:
            needed = rows * one
        in_float32 = 2 * needed <= min(share, budget - least)
        return SketchPlan(2 * needed if in_float32 else needed, True, in_float32, fits and others > 0)


class FeatureSpread:
    """Mean and variance of one layer's features over all workers' training images, from streamed sums."""

    def __init__(self, features: int, device: torch.device) -> None:
        self._shift: Tensor | None = None
        self._sums = torch.zeros(2, features, dtype=torch.float64, device=device)
        self._count, self._rounding = 0, 0.0

    def add(self, features: Tensor, workers: Workers) -> None:
        """Add a chunk (n, D). All are shifted by the first image of rank 0, so that sums do not cancel."""
        if self._shift is None:
            self._shift = features[0].float().clone()  # workers overwrite it
            workers.broadcast(self._shift)
            self._rounding = max(torch.finfo(features.dtype).eps, 64 * torch.finfo(torch.float32).eps)
        add_column_sums(self._sums, features, self._shift)
        self._count += len(features)

    def weights(self, seed: int, workers: Workers) -> tuple[Tensor, Tensor]:
        """Return w (D,) of the layer's sketch, and the mean features (D,)."""
        workers.all_reduce(self._sums)
        assert self._shift is not None
        offset, square = self._sums / workers.sum_int(self._count)
        mean, variances = self._shift + offset, square - offset.square()
        floor = self._rounding**2 * (mean.square() + variances)
        return sketch_weights(variances.clamp_min(0), floor, seed).float(), mean.float()


class Sketches:
    """Sketches of all layers, collected while the layers are learned.

    Attributes
    ----------
    size : int
        m, the numbers per image and layer.
    weights : list of Tensor, each of shape (D,)
        w of each layer so far.
    offsets : list of Tensor, each of shape (m,)
        Mean sketch of each layer so far, subtracted from all sketches.
    rows : dict of str to Tensor, each of shape (n, layers·m)
        Sketches of this worker's images of some streams, each the mean over the image's copies.
    """

    def __init__(
        self,
        config: NetworkConfig,
        image_shape: tuple[int, int, int],
        streams: Mapping[str, int],
        device: torch.device,
        plan: SketchPlan,
    ) -> None:
        self.size = sketch_size(config, image_shape[1:])
        self.weights: list[Tensor] = []
        self.offsets: list[Tensor] = []
        self._seed, self._device = config.seed, device
        self._features = config.features(image_shape[1:])
        self._spread = FeatureSpread(self._features, device)
        numbers = config.layers * self.size
        self.dtype = torch.float32 if plan.in_float32 else torch.float16
        held = device if plan.on_device else torch.device("cpu")
        self.rows = {
            name: torch.zeros(count, numbers, dtype=self.dtype, device=held) for name, count in streams.items()
        }

    def add(self, features: Tensor, workers: Workers) -> None:
        """Add some training images' features (n, D) of the new layer to its sums."""
        self._spread.add(features, workers)

    def finish_sums(self, workers: Workers) -> None:
        """Compute the new layer's weights, from the sums over all training images."""
        weights, mean = self._spread.weights(self._seed * 1_000_003 + len(self.weights), workers)
        self.weights.append(weights)
        self.offsets.append(sketch(mean[None], weights, self.size)[0])
        self._spread = FeatureSpread(self._features, self._device)

    def put(self, name: str, part: slice, features: Tensor, per_image: int) -> None:
        """Store the sketches of features (n, D) of the newest layer, if their stream is collected.

        ``part`` are the entries of a stream, which has ``per_image`` entries per image.
        """
        if name in self.rows:
            columns = slice((len(self.weights) - 1) * self.size, len(self.weights) * self.size)
            found = sketch_features(features, self.weights[-1], self.size) - self.offsets[-1]
            images = slice(part.start // per_image, part.stop // per_image)
            self.rows[name][images, columns] = found.view(-1, per_image, self.size).mean(1).to(self.rows[name])
