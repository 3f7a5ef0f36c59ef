"""Stage 2: k×k patches at a stride of one pixel, and their moments (section 2.3.1).

A patch is a vector of ``channels·k·k`` numbers in the order of a flattened filter ``(channels, k, k)``, so an
eigenvector reshapes into a filter.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F


def extract_patches(x: Tensor, size: int) -> Tensor:
    """Return all valid patches of ``x`` (n, c, h, w), shape (n, (h-k+1)·(w-k+1), c·k·k)."""
    return F.unfold(x, size).transpose(1, 2)


def gather_patches(x: Tensor, size: int, image: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Return the patches with top-left pixel (row, column) of the given images, shape (samples, c, k, k).

    Only the returned patches are copied.
    """
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
    """Sums over patches; they add over chunks of images and over processes.

    Attributes
    ----------
    count : int
    total : Tensor, shape (M,)
    outer : Tensor, shape (M, M)
        Σ p pᵀ.
    """

    count: int
    total: Tensor
    outer: Tensor

    @staticmethod
    def of(patches: Tensor) -> PatchMoments:
        """Return the sums over ``patches`` (..., M), computed in their type and returned in float64."""
        flat = patches.flatten(0, -2)
        return PatchMoments(len(flat), flat.sum(0).double(), (flat.T @ flat).double())

    def __add__(self, other: PatchMoments) -> PatchMoments:
        return PatchMoments(self.count + other.count, self.total + other.total, self.outer + other.outer)

    def mean(self) -> Tensor:
        """Return the mean patch, shape (M,)."""
        return self.total / self.count

    def covariance(self) -> Tensor:
        """Return the covariance about the mean patch, P̄ P̄ᵀ / count in the paper's symbols, shape (M, M)."""
        mean = self.mean()
        return self.outer / self.count - mean[:, None] * mean
