"""Stage 2: k×k patches at a stride of one pixel, and their moments (section 2.3.1), over all patches or per class.

A patch is a vector of ``channels·k·k`` numbers in the order of a flattened filter ``(channels, k, k)``, so an
eigenvector reshapes into a filter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from ..numerics.threads import in_threads

TOGETHER = 16384  # pixels of images that are multiplied in one call


def extract_patches(x: Tensor, size: int) -> Tensor:
    """Return all valid patches of ``x`` (n, c, h, w), shape (n, (h-k+1)·(w-k+1), c·k·k)."""
    return F.unfold(x, size).transpose(1, 2)


def patch_numbers(channels: int, image_size: tuple[int, int], size: int) -> int:
    """Return the numbers of one image's k×k patches in memory: as extracted, and transposed."""
    height, width = image_size
    return 2 * channels * size**2 * (height - size + 1) * (width - size + 1)


def gather_patches(x: Tensor, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Return copies of the patches with top-left pixel (row, column) of the given images, shape (samples, c, k, k)."""
    windows = x.unfold(2, size, 1).unfold(3, size, 1)  # (n, c, h-k+1, w-k+1, k, k), a view
    return windows[image, :, row, column]


def remove_patch_means(patches: Tensor, channels: int) -> Tensor:
    """Subtract the mean of each channel of each patch, as in PCANet; ``patches`` is (..., c·k·k)."""
    by_channel = patches.reshape(*patches.shape[:-1], channels, -1)
    return (by_channel - by_channel.mean(-1, keepdim=True)).flatten(-2)


def remove_means_of_products(products: Tensor, channels: int) -> Tensor:
    """Return Σ p pᵀ, or a covariance, (..., M, M), of patches minus their means: H C H with the projection H."""
    return remove_patch_means(remove_patch_means(products, channels).mT, channels)


@dataclass(frozen=True)
class PatchMoments:
    """Sums over patches; they add over chunks of images and over processes."""

    count: int
    total: Tensor  # Σ p, (M,)
    outer: Tensor  # Σ p pᵀ, (M, M)

    @staticmethod
    def of(patches: Tensor) -> PatchMoments:
        """Return the sums over ``patches`` (..., M), computed in their type and returned in float64."""
        flat = patches.flatten(0, -2)
        return PatchMoments(len(flat), flat.sum(0).double(), (flat.T @ flat).double())

    @staticmethod
    def of_images(x: Tensor, size: int) -> PatchMoments:
        """Return the sums over all k×k patches of images (n, c, h, w), computed in their type, on a CPU in threads.

        Rows a and b of all patches have the products of :func:`_strip_products`, with a k-th of the operations that the
        product of patches takes.
        """
        _, c, h, w = x.shape

        def each(part: Tensor) -> Tensor:  # image by image: the order of the sum must not depend on the threads
            groups = [part[None]] if x.is_cuda else torch.split(part[:, None], max(1, TOGETHER // (h * w)))
            return torch.cat([_strip_products(some, size) for some in groups])

        products = in_threads(each, x).sum(0, dtype=torch.float64)
        total = products.new_empty(c, size, size)  # channel, row, column
        outer = products.new_empty(c, size, size, c, size, size)
        pairs = [(apart, first) for apart in range(size) for first in range(size - apart)]
        for (apart, first), near in zip(pairs, products, strict=True):
            pixels = near[:-1, :-1].reshape(c, size, c, size)
            outer[:, first, :, :, first + apart] = pixels
            outer[:, first + apart, :, :, first] = pixels.permute(2, 3, 0, 1)
            if not apart:
                total[:, first] = near[:-1, -1].view(c, size)
        count = len(x) * (h - size + 1) * (w - size + 1)
        return PatchMoments(count, total.flatten(), outer.view(c * size**2, -1))

    @staticmethod
    def weighted(x: Tensor, roots: Tensor, size: int) -> PatchMoments:
        """Return the sums over the patches of images (n, c, h, w) with weights, whose roots are (n, 1, 1, 1).

        The count is that of the patches: weights must be 1 on average over all images that are added.
        """
        weighted = x * roots
        sums = PatchMoments.of_images(weighted, size)
        total = extract_patches((weighted * roots).sum(0, keepdim=True), size).sum((0, 1))
        return replace(sums, total=total.double())

    def __add__(self, other: PatchMoments) -> PatchMoments:
        return PatchMoments(self.count + other.count, self.total + other.total, self.outer + other.outer)

    def mean(self) -> Tensor:
        """Return the mean patch, shape (M,)."""
        return self.total / self.count

    def covariance(self) -> Tensor:
        """Return the covariance about the mean patch, P̄ P̄ᵀ / count in the paper's symbols, shape (M, M)."""
        mean = self.mean()
        return self.outer / self.count - mean[:, None] * mean


@dataclass(frozen=True)
class ClassMoments:
    """Sums over the patches of each group: a class, or one of several sets of images of a class."""

    images: Tensor  # number, or total weight, per group, (G,)
    outer: Tensor  # Σ p pᵀ, (G, M, M)
    by_position: Tensor  # Σ p at each position, (G, positions, M)

    @property
    def positions(self) -> int:
        """Number of patches per image."""
        return self.by_position.shape[1]

    def covariances(self) -> Tensor:
        """Return the patch covariance of each group, shape (G, M, M); zero for a group without images."""
        patches = torch.where(self.images > 0, self.images * self.positions, 1)
        mean = self.by_position.sum(1) / patches[:, None]
        return self.outer / patches[:, None, None] - mean[:, :, None] * mean[:, None, :]

    def without_patch_means(self, channels: int) -> ClassMoments:
        """Return the sums over patches minus their mean per channel; means are linear, so the sums suffice."""
        outer = remove_means_of_products(self.outer, channels)
        return replace(self, outer=outer, by_position=remove_patch_means(self.by_position, channels))


def _strip_products(x: Tensor, size: int) -> Tensor:
    """Return sums of s sᵀ over pairs of strips per set of images (sets, n, c, h, w), as (sets, k(k+1)/2, c·k+1, c·k+1).

    A strip s is k neighbouring pixels of a row, c·k numbers and a one. A pair lies b - a rows apart, for b - a = 0 to
    k - 1. For each, the sums are over h-k+1 rows from row a on, for a = 0, 1, ...: the next sum differs in two rows.
    """
    sets, n, c, h, w = x.shape
    rows, row = h - size + 1, n * (w - size + 1)
    strips = x.new_ones(sets, h * row, c * size + 1)
    strips[..., :-1] = x.unfold(4, size, 1).permute(0, 3, 1, 4, 2, 5).reshape(sets, h * row, c * size)
    at, sums = strips.view(sets, h, row, -1), []
    for apart in range(size):
        sums.append(strips[:, : rows * row].mT @ strips[:, apart * row : (apart + rows) * row])
        for gone in range(size - apart - 1):
            change = at[:, gone + rows].mT @ at[:, gone + rows + apart] - at[:, gone].mT @ at[:, gone + apart]
            sums.append(sums[-1] + change)
    return torch.stack(sums, 1)


def groups_of(labels: Tensor, sets: int) -> tuple[Tensor, int]:
    """Divide the images of each class into sets, in turn; return the group class·sets + set of each image, and G."""
    turn = labels.new_zeros(len(labels))
    for label in labels.bincount().nonzero()[:, 0].tolist():
        members = (labels == label).nonzero()[:, 0]
        turn[members] = members.new_ones(len(members)).cumsum(0).sub(1) % sets
    return labels * sets + turn, sets * (int(labels.max()) + 1)


def sum_by_group(chunks: Iterable[tuple[Tensor, Tensor]], groups: int, roots: Tensor | None = None) -> ClassMoments:
    """Sum chunks of images, each with groups (n,) and patches (n, positions, M); sums are float64.

    ``roots`` are the square roots of the weights of all images, in the order of the chunks.
    """
    sums: ClassMoments | None = None
    start = 0
    for group, patches in chunks:
        if sums is None:
            _, positions, size = patches.shape
            zeros = patches.new_zeros(groups).double()
            sums = ClassMoments(zeros, zeros.new_zeros(groups, size, size), zeros.new_zeros(groups, positions, size))
        for number in group.bincount().nonzero()[:, 0].tolist():
            chosen = group.to(patches.device) == number
            members = patches[chosen]
            if roots is None:
                sums.images[number] += len(members)
                sums.by_position[number] += members.sum(0).double()
            else:
                root = roots[start : start + len(group)][chosen].to(members)
                members.mul_(root[:, None, None])
                sums.images[number] += root.double().square().sum()
                sums.by_position[number] += torch.tensordot(root, members, 1).double()
            flat = members.flatten(0, 1)
            sums.outer[number] += (flat.T @ flat).double()
        start += len(group)
    assert sums is not None
    return sums


class ImagePatches:
    """Patches k×k of scaled images (n, c, h, w) in memory: the plainest ``PatchSource`` of a filter bank.

    ``labels`` (n,) are the classes of the images, and k is the ``size``.
    """

    weights: Tensor | None = None
    zero_mean = False

    def __init__(self, x: Tensor, labels: Tensor, size: int) -> None:
        self._x, self.labels, self.size = x.double(), labels.cpu(), size
        self.images, self.channels, height, width = x.shape
        self.rows, self.columns = height - size + 1, width - size + 1
        self._patches = extract_patches(self._x, size)  # (n, positions, M)

    def covariance(self) -> Tensor:
        """Return the patch covariance, shape (M, M)."""
        return PatchMoments.of(self._patches).covariance()

    def mean(self) -> Tensor:
        """Return the mean patch, shape (M,)."""
        return self._patches.mean((0, 1))

    def gather(self, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return the patches at the given places, shape (samples, M)."""
        return gather_patches(self._x, self.size, image, row, column).flatten(1)

    def class_moments(self, sets: int = 1) -> ClassMoments:
        """Return the sums over each class's patches, with its images divided into n sets."""
        group, groups = groups_of(self.labels, sets)
        return sum_by_group([(group, self._patches)], groups)
