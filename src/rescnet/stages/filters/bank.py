"""Interface of a filter bank: patches and options in, filters out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ...config.choices import PCABias, PCASigns, StackedLDABias, StackedLDASigns
from .class_moments import ClassMoments


@dataclass(frozen=True)
class BankOptions:
    """Options of the banks; the defaults are those of appendix A.4.

    Attributes
    ----------
    positives, negatives : int
        Patches of the drawn class, and of all others, in one draw of stacked-LDA.
    tolerance : float
        The greatest training error a draw may have to be accepted.
    draw_ridge : float
        Ridge of a draw's LDA, relative to the mean variance of its patches. Deeper layers have more dimensions (477)
        than a draw has patches (34): there it decides the filter.
    bias : {"lda", "mean"}
        Bias of a stacked-LDA filter: the constant of the discriminant (appendix A.3), or minus the response to the mean
        patch. With the constant, most patches fall below zero and ReLU leaves a sparse map; with the mean, half do.
    pca_bias : {"none", "mean"}
        Bias of a PCA filter: zero, or minus the response to the mean patch, which centres patches as learning does.
    pca_signs : {"fixed", "drawn"}
        Sign of a PCA filter: arbitrary for an eigenvector, but it decides what ReLU keeps. ``"fixed"`` makes the
        largest number positive. ``"drawn"`` draws a sign per filter and layer.
    signs : {"one", "both"}
        Filters per stacked-LDA draw: the discriminant of its class, or also its negative, as one-vs-rest has it for two
        classes (appendix A.4).
    within_ridge : float
        What the LDA bank adds to the within scatter, relative to its mean eigenvalue.
    orthonormal : bool
        Whether LDA filters are made orthonormal, the leading one first.
    """

    positives: int = 2
    negatives: int = 32
    tolerance: float = 0.0
    draw_ridge: float = 0.01
    bias: StackedLDABias = "lda"
    pca_bias: PCABias = "none"
    pca_signs: PCASigns = "fixed"
    signs: StackedLDASigns = "one"
    within_ridge: float = 0.0
    orthonormal: bool = False


class PatchSource(Protocol):
    """The patches of a layer's scaled input, and the classes of the images they come from.

    Attributes
    ----------
    channels, size : int
        A patch has ``channels·size·size`` numbers.
    images, rows, columns : int
        A patch is named by its image and its top-left pixel: ``rows·columns`` of them per image.
    labels : Tensor of int64, shape (images,)
        On the CPU. A patch's label is its image's class (appendix A.3).
    zero_mean : bool
        Whether filters act on patches less their own mean per channel, so that a filter constant over a channel would
        see nothing.
    """

    channels: int
    size: int
    images: int
    rows: int
    columns: int
    labels: Tensor
    zero_mean: bool

    def covariance(self) -> Tensor:
        """Return the patch covariance, float64, shape (M, M)."""
        ...

    def mean(self) -> Tensor:
        """Return the mean patch, float64, shape (M,)."""
        ...

    def gather(self, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return the named patches, float64, shape (samples, M)."""
        ...

    def class_moments(self, sets: int = 1) -> ClassMoments:
        """Return the sums over each class's patches, its images dealt out to so many sets.

        Where each map is taken as an image of its own, all maps of an image are summed together, and a position is a
        place on one of its maps.
        """
        ...


@dataclass(frozen=True)
class Filters:
    """Filters as rows.

    Attributes
    ----------
    weights : Tensor, shape (count, M)
        Unit norm, so that the filters of different banks have maps of equal size.
    bias : Tensor, shape (count,)
    """

    weights: Tensor
    bias: Tensor

    def unit_norm(self) -> Filters:
        """Return the filters scaled to unit norm, their bias with them; a zero filter stays zero."""
        norm = self.weights.norm(dim=1)
        inverse = torch.where(norm > 0, 1 / norm, 0)
        return Filters(self.weights * inverse[:, None], self.bias * inverse)


FilterBank = Callable[[PatchSource, int, torch.Generator, BankOptions], Filters]
