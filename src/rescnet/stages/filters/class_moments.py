"""Sums over the patches of each class, streamed: what the supervised banks are solved from."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from .interface import PatchSource


@dataclass(frozen=True)
class ClassMoments:
    """Sums over images, group by group; a group is a class, or one of several sets of a class's images.

    Attributes
    ----------
    images : Tensor, shape (G,)
        Images of each group.
    positions : int
        Patches of an image.
    total : Tensor, shape (G, M)
        Σ p.
    outer : Tensor, shape (G, M, M)
        Σ p pᵀ.
    by_position : Tensor, shape (G, positions, M)
        Σ p at each position apart.
    """

    images: Tensor
    positions: int
    total: Tensor
    outer: Tensor
    by_position: Tensor

    def covariances(self) -> Tensor:
        """Return each group's patch covariance, zero for one without images, shape (G, M, M)."""
        patches = (self.images * self.positions).clamp_min(1)
        mean = self.total / patches[:, None]
        return self.outer / patches[:, None, None] - mean[:, :, None] * mean[:, None, :]


def class_moments(source: PatchSource, sets: int = 1) -> ClassMoments:
    """Go through all images once.

    Parameters
    ----------
    source : PatchSource
    sets : int
        Groups per class: the images of all classes are dealt out to them in turn. Group = class·sets + set.

    Returns
    -------
    ClassMoments
        In float64.
    """
    groups = sets * (int(source.labels.max()) + 1)
    sums: ClassMoments | None = None
    seen = 0
    for labels, patches in source.chunks():
        n, positions, size = patches.shape
        if sums is None:
            zeros = patches.new_zeros(groups).double()
            sums = ClassMoments(
                images=zeros,
                positions=positions,
                total=zeros.new_zeros(groups, size),
                outer=zeros.new_zeros(groups, size, size),
                by_position=zeros.new_zeros(groups, positions, size),
            )
        turn = (seen + labels.new_ones(n).cumsum(0) - 1) % sets
        group = labels * sets + turn
        for number in group.unique().tolist():
            members = patches[group == number]
            flat = members.flatten(0, 1)
            sums.images[number] += len(members)
            sums.total[number] += flat.sum(0).double()
            sums.outer[number] += (flat.T @ flat).double()
            sums.by_position[number] += members.sum(0).double()
        seen += n
    assert sums is not None
    return sums
