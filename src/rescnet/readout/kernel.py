"""The readout itself: fitted once the layers are there, and applied after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..stages.augment import Augmentation
from ..stages.discriminant import NotPositiveDefiniteError, Solver, cholesky_solver
from ..stages.gaussian_kernel import PairDistances, Standard
from ..stages.residual import one_hot
from .memory import rows_at_a_time
from .walk import Walk

if TYPE_CHECKING:
    from ..network import Network

LEAST_RETRY, MOST_TRIES = 1e-3, 6  # of the ridge, where rounding makes a kernel indefinite


@dataclass(frozen=True)
class KernelReadout:
    """A regression of the network's residual on the Gaussian kernel with its training images.

    Attributes
    ----------
    images : Tensor, shape (N, channels, height, width)
        The training images, as they were given.
    coefficients : Tensor, shape (N, classes)
    scale : float
        s of the kernel (:mod:`rescnet.stages.gaussian_kernel`).
    mirrored : bool
        Whether an image and its mirror image are the same to it.
    """

    images: Tensor
    coefficients: Tensor
    scale: float
    mirrored: bool

    @torch.inference_mode()
    def outputs(self, network: Network, images: Tensor) -> Tensor:
        """Return Ỹ + k(x, ·)·coefficients of images (n, channels, height, width), shape (n, classes).

        All training images go through the layers again, whatever n is: predict many images at once.
        """
        size = rows_at_a_time(network, len(self.images), self.mirrored)
        return torch.cat([self._outputs(network, part) for part in images.split(size)])

    def _outputs(self, network: Network, images: Tensor) -> Tensor:
        new, known = Walk(network, images, self.mirrored), Walk(network, self.images, self.mirrored)
        coefficients = self.coefficients.to(new.output)
        distances = PairDistances(len(images), len(self.images), len(new.views), coefficients)
        for layer in network.layers:
            columns, rows = known.through(layer), new.through(layer)
            standard = Standard.of(columns)
            distances.add(standard.apply_(rows), standard.apply_(columns))
        return new.output + distances.kernel_(self.scale) @ coefficients


@torch.inference_mode()
def fit_readout(network: Network, images: Tensor, labels: Tensor) -> KernelReadout:
    """Solve (K + εI)·a = Y - Ỹ for the training images of a network that has all its layers.

    Parameters
    ----------
    network : Network
        ``config`` says the width and the ridge, and by ``augment`` whether mirror images mean the same.
    images : Tensor, shape (N, channels, height, width)
    labels : Tensor of int64, shape (N,)
    """
    config = network.config
    walk = Walk(network, images, Augmentation.parse(config.augment).flip)
    like = walk.output
    distances = PairDistances(len(images), len(images), len(walk.views), like)
    for layer in network.layers:
        features = walk.through(layer)
        distances.add_own(Standard.of(features).apply_(features))
    residual = one_hot(labels.to(like.device), network.classes, like.dtype) - walk.output
    mirrored = len(walk.views) > 1
    del walk, features
    median = distances.median()
    scale = config.kernel_width / median if median > 0 else 0.0
    solve = _solver(distances.kernel_(scale), config.kernel_ridge)
    return KernelReadout(images, solve(residual).cpu(), scale, mirrored)


def _solver(kernel: Tensor, ridge: float) -> Solver:
    """Return what solves (K + εI)a = b, with more ε where K, as rounded, is not positive definite without."""
    kernel.diagonal().add_(ridge)
    for _ in range(MOST_TRIES):
        try:
            return cholesky_solver(kernel)
        except NotPositiveDefiniteError:
            more = max(10 * ridge, LEAST_RETRY)
            kernel.diagonal().add_(more - ridge)
            ridge = more
    raise FloatingPointError("no kernel readout could be solved: check the images for extremes.")
