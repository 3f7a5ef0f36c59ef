"""The readout itself: fitted once the layers are there, and applied after them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...stages.augment import Augmentation, mean_of_views, view_images
from ...stages.cholesky import NotPositiveDefiniteError, cholesky_factor
from ...stages.gaussian_kernel import PairDistances, Standard
from ...stages.residual import one_hot
from .layerwise_pass import Walk
from .loo_correction import SecondLook, fit_second_look, leave_one_out
from .memory import kept_bytes, rows_at_a_time
from .reference_features import KnownImages, KnownLayer, walk_known

if TYPE_CHECKING:
    from ...config.network import NetworkConfig
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
    ridge : float
        The ε used: more than was asked for where the factorisation failed.
    second_look : SecondLook, optional
        What outputs are corrected by in the end.
    """

    images: Tensor
    coefficients: Tensor
    scale: float
    mirrored: bool
    ridge: float
    second_look: SecondLook | None = None
    _kept: KnownImages | None = field(default=None, init=False, repr=False, compare=False)  # since the last prediction

    @torch.inference_mode()
    def outputs(self, network: Network, images: Tensor) -> Tensor:
        """Return Ỹ + k(x, ·)·coefficients of images (n, channels, height, width), looked at again, shape (n, classes).

        All training images go through the layers too. Their features are kept for the next prediction where they are
        few enough (``kept_bytes``); else they do so every time, whatever n is: predict
        many images at once. Of views asked for the mean is returned.
        """
        views = views_of(network.config, self.mirrored)
        size = max(1, rows_at_a_time(network, len(self.images), self.mirrored) // len(views))
        parts = []
        for part in torch.split(images, size):
            seen = self._outputs(network, torch.cat([view_images(part, view) for view in views]))
            parts.append(mean_of_views(seen, len(views)))
        return torch.cat(parts)

    def learnt(self) -> list[Tensor]:
        """Return all that was learnt: coefficients, and those of a second look with its centres."""
        look = self.second_look
        return [self.coefficients, *([] if look is None else [look.centres, look.coefficients])]

    def _outputs(self, network: Network, images: Tensor) -> Tensor:
        new = Walk(network, images, self.mirrored)
        distances = PairDistances(len(images), len(self.images), len(new.views), new.output)
        for layer, known in zip(network.layers, self._known(network), strict=True):
            distances.add(known.standard.apply_(new.through(layer)), known.features)
        outputs = new.output + distances.kernel_(self.scale) @ self.coefficients.to(new.output)
        return outputs if self.second_look is None else self.second_look(outputs)

    def _known(self, network: Network) -> Iterable[KnownLayer]:
        """Return the training images' features of each layer: those kept, or new ones, kept if they fit."""
        kept = self._kept
        if kept is not None and kept.are_of(network):
            return kept.layers
        object.__setattr__(self, "_kept", None)  # those of another network make room first
        if not kept_bytes(network, len(self.images), self.mirrored):
            return walk_known(network, self.images, self.mirrored)
        kept = KnownImages.of(network, self.images, self.mirrored)
        object.__setattr__(self, "_kept", kept)
        return kept.layers

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: what was learnt, and not what can be computed from it."""
        return {name: value for name, value in vars(self).items() if name != "_kept"}


def views_of(config: NetworkConfig, mirrored: bool) -> list[tuple[bool, int, int]]:
    """Return the views a prediction is the mean of: mirrored ones only where they are not the same to the readout."""
    return [view for view in config.views if not (mirrored and view[0])]


@torch.inference_mode()
def fit_readout(network: Network, images: Tensor, labels: Tensor, others: Tensor) -> tuple[KernelReadout, Tensor]:
    """Solve (K + εI)·a = Y - Ỹ for the training images of a network that has all its layers.

    Layers aim at λY, this at all of Y: what is learnt is also the 1 - λ of each class that they leave on purpose.

    Parameters
    ----------
    network : Network
        ``config`` says the width and the ridge, and by ``augment`` whether mirror images mean the same.
    images : Tensor, shape (N, channels, height, width)
    labels : Tensor of int64, shape (N,)
    others : Tensor, shape (n, channels, height, width)
        Images to predict on the way, n may be 0: afterwards all training images would go through the layers again.

    Returns
    -------
    readout : KernelReadout
    outputs : Tensor, shape (n, classes)
        Of the others.
    """
    config = network.config
    mirrored = Augmentation.parse(config.augment).flip
    known, new = Walk(network, images, mirrored), Walk(network, others, mirrored)
    between, among = (
        PairDistances(rows, len(images), 1 + mirrored, known.output) for rows in (len(others), len(images))
    )
    for layer in network.layers:
        columns, rows = known.through(layer), new.through(layer)
        standard = Standard.of(columns)
        among.add_own(standard.apply_(columns))
        between.add(standard.apply_(rows), columns)
    targets = one_hot(labels.to(columns.device), network.classes, known.output.dtype)
    residual, output = targets - known.output, new.output
    del known, new, columns, rows  # the factor needs the room
    median = among.median()
    scale = config.kernel_width / median if median > 0 else 0.0
    factor, ridge = _factor(among.kernel_(scale), config.kernel_ridge)
    coefficients = torch.cholesky_solve(residual, factor)
    look = fit_second_look(leave_one_out(factor, targets), targets) if config.second_look else None
    outputs = output + between.kernel_(scale) @ coefficients
    readout = KernelReadout(images.clone(), coefficients.cpu(), scale, mirrored, ridge, look and look.cpu())
    return readout, outputs if look is None else look(outputs)


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
    raise FloatingPointError("no kernel readout could be solved: check the images for extremes.")
