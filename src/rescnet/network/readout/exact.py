"""Exact kernel readout: Gaussian-kernel ridge regression on the distances of all features of all layers.

The layers' heads are linear in their own features. The readout compares an image with every training image by the
distance of all features of all layers, and interpolates the residual of the whole network in that metric: one symmetric
system with one equation per training image, solved in closed form.

It keeps the training images, passes them through the layers at every prediction, and cannot be exported. It shows how
much the codes of :mod:`.kernel` lose.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...config.grammars import Augmentation
from ...stages.augment import mean_of_views, view_images
from ...stages.gaussian_kernel import PairDistances, Standard
from ...stages.linear_algebra import NotPositiveDefiniteError, cholesky_factor
from ...stages.residual import one_hot
from ..stack import LayerStack
from .features import LayerwisePass, batch_size, reference_layers
from .kernel import views_of
from .loo_correction import LeaveOneOutCorrection, fit_correction, leave_one_out

LEAST_RETRY, MOST_TRIES = 1e-3, 6  # of the ridge, if rounding makes a kernel indefinite


@dataclass(frozen=True)
class ExactReadout:
    """A fitted kernel readout.

    Attributes
    ----------
    images : Tensor, shape (N, channels, height, width)
        Training images, as they were given.
    coefficients : Tensor, shape (N, classes)
    scale : float
        s of the kernel (:mod:`rescnet.stages.gaussian_kernel`).
    mirrored : bool
        Whether the kernel treats an image and its mirror image as equal.
    ridge : float
        The ε used: more than the option's where the factorisation failed.
    correction : LeaveOneOutCorrection, optional
        Applied to the outputs last.
    """

    images: Tensor
    coefficients: Tensor
    scale: float
    mirrored: bool
    ridge: float
    correction: LeaveOneOutCorrection | None = None

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
        """Return how many new images are compared with the training images at a time."""
        return batch_size(stack, len(self.images), self.mirrored)

    def learned(self) -> list[Tensor]:
        """Return all tensors of the readout."""
        correction = self.correction
        return [
            self.images,
            self.coefficients,
            *([] if correction is None else [correction.centres, correction.coefficients]),
        ]

    def _outputs(self, stack: LayerStack, images: Tensor) -> Tensor:
        new = LayerwisePass(stack, images, self.mirrored)
        distances = PairDistances(len(images), len(self.images), len(new.views), new.output)
        for layer, reference in zip(stack.layers, reference_layers(stack, self.images, self.mirrored), strict=True):
            distances.add(reference.standard.apply_(new.advance(layer)), reference.features)
        outputs = new.output + distances.kernel_(self.scale) @ self.coefficients.to(new.output)
        return outputs if self.correction is None else self.correction(outputs)

    def __len__(self) -> int:
        """Return the number of training images."""
        return len(self.coefficients)


@torch.inference_mode()
def fit_exact(stack: LayerStack, images: Tensor, labels: Tensor, others: Tensor) -> tuple[ExactReadout, Tensor]:
    """Solve (K + εI)·a = Y - Ỹ for the training images of a stack that has all its layers.

    Layers aim at λY, the readout at Y: it also learns the 1 - λ of each class that they leave.

    Parameters
    ----------
    stack : LayerStack
        Its options set width and ridge; ``augment`` with a flip makes the kernel treat mirror images as equal.
    images : Tensor, shape (N, channels, height, width)
    labels : Tensor of int64, shape (N,)
    others : Tensor, shape (n, channels, height, width)
        Images to predict on the way; n may be 0. Later, all training images would pass through the layers again.

    Returns
    -------
    readout : ExactReadout
    outputs : Tensor, shape (n, classes)
        Of the others.
    """
    config = stack.config
    mirrored = Augmentation.parse(config.augment).flip
    known, new = LayerwisePass(stack, images, mirrored), LayerwisePass(stack, others, mirrored)
    between, among = (
        PairDistances(rows, len(images), 1 + mirrored, known.output) for rows in (len(others), len(images))
    )
    for layer in stack.layers:
        columns, rows = known.advance(layer), new.advance(layer)
        standard = Standard.of(columns)
        among.add_own(standard.apply_(columns))
        between.add(standard.apply_(rows), columns)
    targets = one_hot(labels.to(columns.device), stack.classes, known.output.dtype)
    residual, output = targets - known.output, new.output
    del known, new, columns, rows  # the factor needs the room
    median = among.median()
    scale = config.kernel_width / median if median > 0 else 0.0
    factor, ridge = _factor(among.kernel_(scale), config.kernel_ridge)
    coefficients = torch.cholesky_solve(residual, factor)
    correction = fit_correction(leave_one_out(factor, targets), targets) if config.loo_correction else None
    outputs = output + between.kernel_(scale) @ coefficients
    on_cpu = correction and correction.cpu()
    readout = ExactReadout(images.clone(), coefficients.cpu(), scale, mirrored, ridge, on_cpu)
    return readout, outputs if correction is None else correction(outputs)


def _factor(kernel: Tensor, ridge: float) -> tuple[Tensor, float]:
    """Return the lower factor of K + εI, and ε: more where K, as rounded, is not positive definite without."""
    kernel.diagonal().add_(ridge)
    for _ in range(MOST_TRIES):
        try:
            return cholesky_factor(kernel), ridge
        except NotPositiveDefiniteError:
            more = max(10 * ridge, LEAST_RETRY)
            kernel.diagonal().add_(more - ridge)
            ridge = more
    raise FloatingPointError("the kernel readout could not be solved. Check the images for extreme values.")
