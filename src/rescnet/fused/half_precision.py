"""Stages 1, 2 and 4 in half precision, with the scaling folded into the filters.

Maps are stored as the convolution returns them, in float16, channels last. A layer's input is an affine function of
these raw maps, channel by channel: ``x = (raw - low)·scale``. So

* a filter W on x is the filter W·scale on raw maps, with another bias;
* the covariance of patches of x is that of raw patches, times scale·scale.

Nothing is subtracted in half precision, and a GPU writes no scaled copy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..stages.convolution import convolve
from ..stages.images import ValueRange, concatenate
from ..stages.patches import PatchMoments

CHANNELS = 8  # channels are padded to a multiple of it, so that 16 bytes are loaded at once
GROUPS = 32  # independent sums of patch products, so that even a small matrix uses all multiprocessors


@dataclass(frozen=True)
class FoldedScale:
    """Affine scaling ``x = (raw - low)·scale`` per channel."""

    low: Tensor  # float32, (channels,)
    scale: Tensor  # float32, (channels,)

    @staticmethod
    def none(channels: int, device: torch.device) -> FoldedScale:
        """Return the identity."""
        return FoldedScale(torch.zeros(channels, device=device), torch.ones(channels, device=device))

    @staticmethod
    def of(value_range: ValueRange) -> FoldedScale:
        """Return the scaling of a range; a constant channel has scale zero."""
        low = value_range.low.float()
        span = value_range.high.float() - low
        return FoldedScale(low, torch.where(span > torch.finfo(span.dtype).tiny, 1 / span, 0))

    def __call__(self, images: Tensor) -> Tensor:
        """Return scaled images (n, channels, h, w) in half precision."""
        return ((images.float() - self.low[:, None, None]) * self.scale[:, None, None]).half()


def raw_input(maps: Tensor | None, images: Tensor) -> Tensor:
    """Return ``[maps ; image ; 1]`` in half precision, shape (n, h, w, channels), padded with channels of zeros.

    Maps are (n, d_i, h, w) or None, images (n, d, h, w). Products with the channel of ones are sums.
    """
    n, d, h, w = images.shape
    m = 0 if maps is None else maps.shape[1]
    x = torch.zeros(n, h, w, padded_channels(m + d + 1), dtype=torch.float16, device=images.device)
    if maps is not None:
        x[..., :m] = maps.permute(0, 2, 3, 1)
    x[..., m : m + d] = images.permute(0, 2, 3, 1)
    x[..., m + d] = 1
    return x


def padded_channels(channels: int) -> int:
    """Return the number of channels with those of zeros, which fill them up to 16 bytes in half precision."""
    return -(-channels // CHANNELS) * CHANNELS


def convolve_scaled(maps: Tensor | None, images: Tensor, folded: FoldedScale, weights: Tensor, bias: Tensor) -> Tensor:
    """Return ``scale([maps ; image]) ∗ W + B`` in half precision, shape (n, d, h, w).

    Equals ``convolve(min_max_scale(concatenate(maps, images), range), weights, bias)``. Like the GPU's kernel it rounds
    the scaled filters and the result to half precision, and sums in float32.
    """
    low, scale = folded.low[:, None, None], folded.scale[:, None, None]
    rounded = (weights.float() * scale).half().float()
    return convolve(concatenate(maps, images).float() - low, rounded, bias.float()).half()


class CopiedPatchSums:
    """Sums over all k×k patches, computed from copies of the patches of each chunk.

    The added images may have more than the ``channels`` of a patch.
    """

    def __init__(self, channels: int, size: int) -> None:
        self.channels, self.size = channels, size
        self._sums: PatchMoments | None = None

    def add(self, x: Tensor) -> None:
        """Add images ``x`` (n, h, w, c), half precision."""
        n, h, w, c = x.shape
        rows, columns = h - self.size + 1, w - self.size + 1
        windows = x.as_strided(
            (n, rows, columns, self.size, self.size * c), (h * w * c, w * c, c, w * c, 1)
        )  # the columns and channels of a patch's row are contiguous
        patches = windows.reshape(n * rows * columns, self.size**2 * c)
        count = len(patches)
        groups = max(g for g in range(1, GROUPS + 1) if count % g == 0)
        grouped = patches.view(groups, count // groups, -1)
        if x.is_cuda:
            outer = torch.bmm(grouped.transpose(1, 2), grouped, out_dtype=torch.float32).double().sum(0)
        else:
            outer = (patches.T.float() @ patches.float()).double()
        here = PatchMoments(count, patches.sum(0, dtype=torch.float32).double(), outer)
        self._sums = here if self._sums is None else self._sums + here

    def moments(self) -> PatchMoments:
        """Return the sums in the order of ``extract_patches``: channel, row, column."""
        assert self._sums is not None
        sums, offsets = self._sums, self.size**2
        order = torch.arange(len(sums.total), device=sums.total.device).view(offsets, -1).T[: self.channels].flatten()
        return PatchMoments(sums.count, sums.total[order], sums.outer[order][:, order])


def scale_covariance(covariance: Tensor, folded: FoldedScale, size: int) -> Tensor:
    """Return the covariance of scaled patches from that of raw ones, shape (M, M)."""
    scale = folded.scale.double().repeat_interleave(size * size)
    return covariance * scale * scale[:, None]


def scale_mean(mean: Tensor, folded: FoldedScale, size: int) -> Tensor:
    """Return the mean of scaled patches from that of raw ones, shape (M,)."""
    low, scale = (end.double().repeat_interleave(size * size) for end in (folded.low, folded.scale))
    return (mean - low) * scale
