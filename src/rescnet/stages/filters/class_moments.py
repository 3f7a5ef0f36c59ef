"""Streamed sums over the patches of each class, for the supervised banks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from torch import Tensor

from ..patches import remove_means_of_products, remove_patch_means


@dataclass(frozen=True)
class ClassMoments:
    """Sums over the patches of each group: a class, or one of several sets of images of a class.

    Attributes
    ----------
    images : Tensor, shape (G,)
        Number of images per group.
    outer : Tensor, shape (G, M, M)
        Σ p pᵀ.
    by_position : Tensor, shape (G, positions, M)
        Σ p at each position.
    """

    images: Tensor
    outer: Tensor
    by_position: Tensor

    @property
    def positions(self) -> int:
        """Number of patches per image."""
        return self.by_position.shape[1]

    def covariances(self) -> Tensor:
        """Return the patch covariance of each group, shape (G, M, M); zero for a group without images."""
        patches = (self.images * self.positions).clamp_min(1)
        mean = self.by_position.sum(1) / patches[:, None]
        return self.outer / patches[:, None, None] - mean[:, :, None] * mean[:, None, :]

    def without_patch_means(self, channels: int) -> ClassMoments:
        """Return the sums over patches minus their mean per channel; means are linear, so the sums suffice."""
        outer = remove_means_of_products(self.outer, channels)
        return replace(self, outer=outer, by_position=remove_patch_means(self.by_position, channels))


def groups_of(labels: Tensor, sets: int) -> tuple[Tensor, int]:
    """Divide the images of each class into sets, in turn; return the group class·sets + set of each image, and G."""
    turn = labels.new_zeros(len(labels))
    for label in labels.bincount().nonzero()[:, 0].tolist():
        members = (labels == label).nonzero()[:, 0]
        turn[members] = members.new_ones(len(members)).cumsum(0).sub(1) % sets
    return labels * sets + turn, sets * (int(labels.max()) + 1)


def sum_by_group(chunks: Iterable[tuple[Tensor, Tensor]], groups: int) -> ClassMoments:
    """Sum chunks of images, each with groups (n,) and patches (n, positions, M); sums are float64."""
    sums: ClassMoments | None = None
    for group, patches in chunks:
        if sums is None:
            _, positions, size = patches.shape
            zeros = patches.new_zeros(groups).double()
            sums = ClassMoments(zeros, zeros.new_zeros(groups, size, size), zeros.new_zeros(groups, positions, size))
        for number in group.bincount().nonzero()[:, 0].tolist():
            members = patches[group.to(patches.device) == number]
            flat = members.flatten(0, 1)
            sums.images[number] += len(members)
            sums.outer[number] += (flat.T @ flat).double()
            sums.by_position[number] += members.sum(0).double()
    assert sums is not None
    return sums
