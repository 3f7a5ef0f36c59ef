"""Exact kernel readout: Gaussian-kernel ridge regression on the distances of all features of all layers.

The layers' heads are linear in their own features. The readout compares an image with every training image by the
distance of all features of all layers, and interpolates the residual of the whole network in that metric: one symmetric
system with one equation per training image, solved in closed form.

It keeps the training images, passes them through the layers at every prediction, and cannot be exported. It shows how
much the codes of :mod:`.kernel` lose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ...config.grammars import MIRROR, View
from ...numerics.code_kernel import kernel_scale
from ...numerics.linear_algebra import (
    NotPositiveDefiniteError,
    cholesky_factor,
    factor_solve,
    growing_ridges,
    inverse_blocks,
    padded_size,
)
from ...stages.augment import mean_of_views, view_images
from ...stages.gaussian_kernel import PairDistances, Standard
from ...stages.residual import one_hot
from ...text import show_bytes
from ..memory import image_bytes, memory_budget
from ..stack import LayerStack
from .kernel import views_of
from .loo_correction import UNSOLVED, ErrorRegression, LeaveOneOutCorrection, leave_one_out

BATCH_BYTES = {"cpu": 2 * 2**30, "cuda": 16 * 2**30}  # of new images that are compared at a time
VIEWS: tuple[View, View] = (False, 0, 0), MIRROR


@dataclass(frozen=True, eq=False)
class ExactReadout:
    """A fitted kernel readout on all features."""

    images: Tensor  # training images, as they were given, (N, channels, height, width)
    coefficients: Tensor  # (N, classes)
    scale: float  # s of the kernel (:mod:`rescnet.stages.gaussian_kernel`)
    mirrored: bool  # the kernel treats an image and its mirror image as equal
    ridge: float  # the ε used: more than the option's where the factorisation failed
    correction: LeaveOneOutCorrection | None = None  # applied to the outputs last

    @torch.inference_mode()
    def outputs(self, stack: LayerStack, images: Tensor, chunk: int | None = None) -> Tensor:
        """Return Ỹ + k(x, ·)·coefficients of images (n, channels, height, width), corrected, shape (n, classes).

        The features of all training images are computed too, at every call: predict many images at once. The result is
        averaged over the test views.
        """
        views = views_of(stack.config, self.mirrored)
        size = chunk or max(1, self.batch(stack) // len(views))
        parts = []
        for part in torch.split(images, size):
            seen = self._outputs(stack, torch.cat([view_images(part, view) for view in views]))
            parts.append(mean_of_views(seen, len(views)))
        return torch.cat(parts)

    def batch(self, stack: LayerStack) -> int:
        """Return how many new images are compared with the training images at a time.

        ValueError is raised if the training images alone take more memory than there is.
        """
        first, images = stack.layers[0].weights, len(self.images)
        stored = 2 if stack.half else first.dtype.itemsize
        one = image_bytes(stack.config, stack.image_shape, stored, self.mirrored)
        budget = memory_budget("auto", first.device)
        room = min(BATCH_BYTES[first.device.type], budget - images * one)
        if room <= 0:
            raise ValueError(
                f"memory must hold the maps and features of the readout's {images:,} training images, "
                f"{show_bytes(images * one)}, got {show_bytes(budget)}. Use more memory, or fewer layers than "
                f"{len(stack.layers)}, which have no readout."
            )
        return max(1, room // (one + (1 + self.mirrored) * first.dtype.itemsize * images))

    def learned(self) -> list[Tensor]:
        """Return all tensors of the readout."""
        correction = [] if self.correction is None else [self.correction.centres, self.correction.coefficients]
        return [self.images, self.coefficients, *correction]

    def _outputs(self, stack: LayerStack, images: Tensor) -> Tensor:
        output, known_output = (no_output(stack, each, self.mirrored) for each in (images, self.images))
        distances = PairDistances(len(images), len(self), len(output), output)
        new = features_by_layer(stack, images, output)
        known = features_by_layer(stack, self.images, known_output)
        for rows, columns in zip(new, known, strict=True):
            standard = Standard.of(columns)
            distances.add(standard.apply_(rows), standard.apply_(columns))
        outputs = output.mean(0) + distances.kernel_(self.scale) @ self.coefficients.to(output)
        return outputs if self.correction is None else self.correction(outputs)

    def __len__(self) -> int:
        """Return the number of training images."""
        return len(self.coefficients)


@torch.inference_mode()
def fit_exact(stack: LayerStack, images: Tensor, labels: Tensor, weights: Tensor | None = None) -> ExactReadout:
    """Solve (K + εI)·a = Y - Ỹ for training images (N, channels, height, width) of a stack that has all its layers.

    Layers aim at λY, the readout at Y: it also learns the 1 - λ of each class that they leave. ``augment`` with a flip
    makes the kernel treat mirror images as equal. ``weights`` (N,) divide ε.
    """
    config = stack.config
    output = no_output(stack, images, config.mirrors_kernel)
    distances = PairDistances(len(images), len(images), len(output), output)
    for features in features_by_layer(stack, images, output):
        Standard.of(features).apply_(features)
        distances.add(features, features)
    del features  # the factor needs the room
    targets = one_hot(labels.to(output.device), stack.classes, output.dtype)
    scale = kernel_scale(config.kernel_width, distances.median())
    factor, ridge = _factor(distances.kernel_(scale), config.kernel_ridge, weights)
    coefficients = factor_solve(factor, targets - output.mean(0)).cpu()
    correction = None
    if config.loo_correction:
        left_out = leave_one_out(targets, factor_solve(factor, targets), inverse_blocks(factor, 1))
        correction = ErrorRegression.of(left_out, targets).correction.to(torch.device("cpu"))
    return ExactReadout(images.clone(), coefficients, scale, config.mirrors_kernel, ridge, correction)


def no_output(stack: LayerStack, images: Tensor, mirrored: bool) -> Tensor:
    """Return zeros for Ỹ of images and, if ``mirrored``, of their mirror images, (views, n, classes)."""
    return stack.layers[0].weights.new_zeros(1 + mirrored, len(images), stack.classes)


def features_by_layer(stack: LayerStack, images: Tensor, output: Tensor) -> Iterator[Tensor]:
    """Pass images (n, channels, height, width) through the layers together, and add to their Ỹ (views, n, classes).

    Yields the features of each layer, (views, n, D). The next layer overwrites them, and callers may too. In half
    precision they are padded with zeros for tensor cores.
    """
    (_, height, width), like = stack.image_shape, stack.layers[0].weights
    used = stack.config.features((height, width))
    dtype, padded = (torch.float16, padded_size(used)) if stack.half else (like.dtype, used)
    features = torch.zeros(*output.shape[:2], padded, dtype=dtype, device=like.device)
    maps = torch.empty(*output.shape[:2], height, width, stack.config.filters, dtype=dtype, device=like.device)
    maps = maps.permute(0, 1, 4, 2, 3)  # channels last, for the kernels
    for layer in stack.layers:
        for number, view in enumerate(VIEWS[: len(output)]):
            for start in range(0, len(images), stack.chunk):
                part = slice(start, start + stack.chunk)
                seen = view_images(images[part].to(like.device), view)
                step = stack.step(layer, maps[number, part], output[number, part], seen)
                maps[number, part], output[number, part] = step.maps, step.output
                features[number, part, :used] = step.features
        yield features


def _factor(kernel: Tensor, ridge: float, weights: Tensor | None = None) -> tuple[Tensor, float]:
    """Return the lower factor of K + εI, and ε: more where K, as rounded, is not positive definite without."""
    diagonal = kernel.diagonal().clone()
    factors = torch.ones_like(diagonal) if weights is None else (1 / weights).to(diagonal)
    for tried in growing_ridges(ridge):
        kernel.diagonal().copy_(diagonal + tried * factors)
        try:
            return cholesky_factor(kernel), tried
        except NotPositiveDefiniteError:
            continue
    raise FloatingPointError(UNSOLVED)
