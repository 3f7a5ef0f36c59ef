"""Stages 1, 2 and 4 in half precision: the scaling is folded into the filters, so raw maps are never rewritten.

Maps are kept as they come out of the convolution, in float16, channels last. A layer's input is an affine function of
them, channel by channel: ``x = (raw - low)·scale``. So

* a filter W on x is the filter W·scale on raw maps, with another bias, provided the border is padded with ``low``;
* the covariance of patches of x is that of raw patches, times scale·scale.

Nothing is subtracted from the maps in half precision, and no scaled copy is written.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..stages.half_products import split
from ..stages.images import ValueRange
from ..stages.patches import PatchMoments

CHANNELS_IN, CHANNELS_OUT = 32, 8  # multiples the convolution likes
GROUPS = 32  # independent sums of patch products, so that a small matrix keeps all multiprocessors busy


@dataclass(frozen=True)
class FoldedScale:
    """``x = (raw - low)·scale``, channel by channel.

    Attributes
    ----------
    low, scale : Tensor of float32, shape (channels,)
        ``low`` is representable in half precision, since the border is padded with it.
    """

    low: Tensor
    scale: Tensor

    @staticmethod
    def none(channels: int, device: torch.device) -> FoldedScale:
        """Return the scale that changes nothing."""
        return FoldedScale(torch.zeros(channels, device=device), torch.ones(channels, device=device))

    @staticmethod
    def of(value_range: ValueRange) -> FoldedScale:
        """Fold a range; a constant channel has scale zero."""
        low = value_range.low.half().float()
        span = value_range.high.float() - value_range.low.float()
        return FoldedScale(low, torch.where(span > 0, 1 / span, 0))


def raw_input(
    maps: Tensor | None, images: Tensor, low: Tensor | None = None, before: int = 0, after: int = 0, align: int = 8
) -> Tensor:
    """Return ``[maps ; image]`` in half precision, channels last; with a border and two channels of ones, if asked.

    Parameters
    ----------
    maps : Tensor, shape (n, d_i, h, w), or None
    images : Tensor, shape (n, d, h, w)
    low : Tensor, shape (d_i + d,), optional
        The border's value. With it come two channels of ones, on which a bias can be put.
    before, after : int
        Pixels of border above and to the left, below and to the right.
    align : int
        Channels are rounded up to a multiple of it, with zeros.

    Returns
    -------
    Tensor, shape (n, h + before + after, w + before + after, channels)
    """
    n, d, h, w = images.shape
    m = 0 if maps is None else maps.shape[1]
    used = m + d if low is None else m + d + 2
    channels = -(-used // align) * align
    x = torch.zeros(n, h + before + after, w + before + after, channels, dtype=torch.float16, device=images.device)
    if low is not None:
        x[..., :used] = torch.cat([low, low.new_ones(2)]).half()
    inside = x[:, before : before + h, before : before + w]
    if maps is not None:
        inside[..., :m] = maps.permute(0, 2, 3, 1)
    inside[..., m : m + d] = images.permute(0, 2, 3, 1)
    return x


def convolve_scaled(maps: Tensor | None, images: Tensor, folded: FoldedScale, weights: Tensor, bias: Tensor) -> Tensor:
    """Return ``scale([maps ; image]) ∗ W + B`` in half precision, channels last, shape (n, d, h, w).

    Same as ``convolve(min_max_scale(concatenate(maps, images), range), weights, bias)``. The bias rides on two channels
    of ones, its high and its low half, so that it is added before the sum is rounded; channels in and out are padded to
    what the convolution is fastest with.
    """
    k = weights.shape[-1]
    before, after = (k - 1) // 2, k // 2
    x = raw_input(maps, images, folded.low, before, after, align=CHANNELS_IN)
    (d, used), channels = weights.shape[:2], x.shape[3]
    scaled = weights.float() * folded.scale[:, None, None]
    shifted = bias.float() - (scaled * folded.low[:, None, None]).sum((1, 2, 3))
    filters = torch.zeros(-(-d // CHANNELS_OUT) * CHANNELS_OUT, k, k, channels, dtype=torch.float16, device=x.device)
    filters[:d, :, :, :used] = scaled.permute(0, 2, 3, 1)
    filters[:d, before, before, used], filters[:d, before, before, used + 1] = split(shifted)
    return F.conv2d(x.permute(0, 3, 1, 2), filters.permute(0, 3, 1, 2))[:, :d]


def scaled_patch_moments(maps: Tensor | None, images: Tensor, size: int) -> PatchMoments:
    """Return the sums over all k×k patches of the raw ``[maps ; image]``, in the order of ``extract_patches``."""
    channels = images.shape[1] + (0 if maps is None else maps.shape[1])
    x = raw_input(maps, images)
    n, h, w, c = x.shape
    rows, columns = h - size + 1, w - size + 1
    windows = x.as_strided(
        (n, rows, columns, size, size * c), (h * w * c, w * c, c, w * c, 1)
    )  # the columns and channels of a patch's row lie side by side
    patches = windows.reshape(n * rows * columns, size * size * c)
    count = len(patches)
    groups = max(g for g in range(1, GROUPS + 1) if count % g == 0)
    grouped = patches.view(groups, count // groups, -1)
    if x.is_cuda:
        outer = torch.bmm(grouped.transpose(1, 2), grouped, out_dtype=torch.float32).double().sum(0)
    else:
        outer = (patches.T.float() @ patches.float()).double()
    total = patches.sum(0, dtype=torch.float32).double()
    # (row, column, channel) → (channel, row, column), padding channels left out
    order = torch.arange(size * size * c, device=x.device).view(size * size, c).T[:channels].flatten()
    return PatchMoments(count, total[order], outer[order][:, order])


def scale_covariance(covariance: Tensor, folded: FoldedScale, size: int) -> Tensor:
    """Return the covariance of scaled patches from that of raw ones, shape (M, M)."""
    scale = folded.scale.double().repeat_interleave(size * size)
    return covariance * scale * scale[:, None]
