"""What a filter bank is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from .class_moments import ClassMoments

Bias = Literal["lda", "midpoint", "mean", "none"]
PCABias = Literal["none", "mean"]
PCASigns = Literal["fixed", "drawn"]
FilterLength = Literal["unit", "own"]
DrawSides = Literal["one", "both"]


class NotEnoughFiltersError(ValueError):
    """A bank was asked for more filters than the patches hold."""


@dataclass(frozen=True)
class BankOptions:
    """What banks may be told; the values of appendix A.4 are the defaults.

    Attributes
    ----------
    positives, negatives : int
        Patches of the drawn class, and of all others, in one draw of stacked-LDA.
    tolerance : float
        The greatest training error a draw may have to be accepted.
    draw_ridge : float
        Ridge of a draw's LDA, relative to the mean variance of its patches. Deeper layers have more dimensions (477)
        than a draw has patches (34): there it decides the filter.
    most_draws : int
        Draws after which the search is given up.
    bias : {"lda", "midpoint", "mean", "none"}
        What a stacked-LDA filter adds: the discriminant's constant, as appendix A.3 has it; the same without the log
        prior odds of 2 against 32; minus its response to the mean patch; or nothing. With the whole constant most
        patches fall below zero and ReLU leaves a sparse map; without the prior odds, or with the mean, about half do.
    pca_bias : {"none", "mean"}
        What a PCA filter adds: nothing, or minus its response to the mean patch, so that patches are centred when they
        are filtered as they are when the filters are learnt.
    pca_signs : {"fixed", "drawn"}
        The sign of a PCA filter, which is arbitrary for an eigenvector but decides what ReLU keeps. ``"fixed"``: its
        number of largest size is positive. ``"drawn"``: random, for each filter in each layer, from the seed.
    patch_ridge : float
        ε of the banks that whiten, relative to the mean eigenvalue of the patch covariance.
    length : {"unit", "own"}
        Of a stacked-LDA filter: one, as that of a PCA filter, or the discriminant's own, which grows as its patches
        lie closer together. Pooling does not see it; the next layer does, where all maps share one range.
    sides : {"one", "both"}
        What a draw of stacked-LDA gives: the discriminant of its class; or, as one against the rest has it for two
        classes (appendix A.4), that of the other patches too, which is its negative. ReLU lets a half of each through.
    within_ridge : float
        What the LDA bank adds to the within scatter, relative to its mean eigenvalue.
    orthonormal : bool
        Whether LDA filters are made orthonormal, the leading one first.
    """

    positives: int = 2
    negatives: int = 32
    tolerance: float = 0.0
    draw_ridge: float = 0.01
    most_draws: int = 100_000
    bias: Bias = "lda"
    pca_bias: PCABias = "none"
    pca_signs: PCASigns = "fixed"
    patch_ridge: float = 0.1
    length: FilterLength = "unit"
    sides: DrawSides = "one"
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
    weights : Tensor of float64, shape (images,), or None
        On the CPU. How often an image is drawn, where patches are; None: all alike.
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
    weights: Tensor | None
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
        Unit norm, so that the filters of different banks speak equally loudly; unless a bank is told otherwise.
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
