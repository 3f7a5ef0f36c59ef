"""Stage 5: second-order pooling (section 2.3.2): z-scored r×c blocks → channel covariance → upper triangle.

The covariance of z-scored data needs only sums over the block. Products of channels are summed over tiles of
gcd(block, stride) pixels, and sliding sums over tiles give every block, overlapping or not; where a tile is a single
pixel the blocks themselves are multiplied out. Each map is first shifted by its own mean, which no covariance notices
and which keeps the sums from cancelling.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

ZScore = Literal["channel", "block"]
FLAT = 0.01  # of a map's standard deviation: a block that varies less is mostly rounding, which a z-score would blow up


@dataclass(frozen=True)
class BlockGrid:
    """Where the blocks of second-order pooling lie on a map: (rows, columns) throughout."""

    map_size: tuple[int, int]
    block: tuple[int, int]
    stride: tuple[int, int]

    def __post_init__(self) -> None:
        if min(*self.block, *self.stride) < 1:
            raise ValueError(
                f"block {self.block} and stride {self.stride} must be at least one pixel: choose positive sizes."
            )
        if self.block[0] > self.map_size[0] or self.block[1] > self.map_size[1]:
            raise ValueError(
                f"a pooling block of {self.block[0]}×{self.block[1]} does not fit images of "
                f"{self.map_size[0]}×{self.map_size[1]}: choose block_size at most {min(self.map_size)}."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of block rows and block columns."""
        (h, w), (r, c), (sy, sx) = self.map_size, self.block, self.stride
        return (h - r) // sy + 1, (w - c) // sx + 1

    @property
    def tile(self) -> tuple[int, int]:
        """The largest tile of which every block, at every position, is made."""
        return gcd(self.block[0], self.stride[0]), gcd(self.block[1], self.stride[1])


def channel_pairs(channels: int, diagonal: bool, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Return the channels (i, j) of each second-order feature: the upper triangle, row by row."""
    rows, columns = torch.triu_indices(channels, channels, 0 if diagonal else 1, device=device)
    return rows, columns


def count_pairs(channels: int, diagonal: bool) -> int:
    """Return the features per block: d(d+1)/2 with the diagonal, d(d-1)/2 without."""
    return channels * (channels + 1) // 2 if diagonal else channels * (channels - 1) // 2


def second_order_pool(maps: Tensor, grid: BlockGrid, z_score: ZScore = "channel", diagonal: bool = True) -> Tensor:
    """Return the upper triangle of each z-scored block's channel covariance.

    Parameters
    ----------
    maps : Tensor, shape (n, d, h, w)
        Rectified maps.
    grid : BlockGrid
        Size, stride and place of the blocks.
    z_score : {"channel", "block"}
        Over what mean and standard deviation are taken, which the paper leaves open. ``"channel"``: each channel of the
        block by its own, the covariance becomes a correlation. ``"block"``: all channels of the block by one.
        A channel that is flat in a block, compared with its map, has z = 0 there.
    diagonal : bool
        Keep the variances. With the ``"channel"`` z-score they are 1 wherever there is variance, and may be dropped.

    Returns
    -------
    Tensor, shape (n, block rows, block columns, pairs)
    """
    means, variances, covariances = _block_covariances(maps, grid, diagonal)
    if z_score == "channel":
        scale = _reciprocal_root(variances)  # (n, block rows, block columns, d), 1/σ of each channel
    else:
        spread = variances.mean(-1, keepdim=True) + means.var(-1, correction=0, keepdim=True)  # within + between
        scale = _reciprocal_root(spread) * (variances > 0)
    return covariances.mul_(_pair_products(scale, diagonal))


def _block_covariances(maps: Tensor, grid: BlockGrid, diagonal: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return block means (n, R, C, d), variances (n, R, C, d) and covariances of pairs (n, R, C, pairs)."""
    x = maps.permute(0, 2, 3, 1)  # channels last: a pixel's products lie side by side
    centre = x.mean((1, 2), keepdim=True)
    x = (x - centre).contiguous()
    pixels = grid.block[0] * grid.block[1]
    if grid.tile == (1, 1):
        second = _window_products(x, grid.block, grid.stride, diagonal).div_(pixels)
    else:
        second = _sliding_sums(_window_products(x, grid.tile, grid.tile, diagonal), grid).div_(pixels)
    first = _block_means(x, grid)
    square = _block_means(x.square(), grid)
    variances = square - first.square()
    # A block is flat if it varies a hundred times less than its map, or less than the rounding of sums and maps.
    eps = torch.finfo(maps.dtype).eps
    floor = 32 * eps * square + (16 * eps * centre).square_() + x.square().mean((1, 2), keepdim=True).mul_(FLAT**2)
    variances = torch.where(variances > floor, variances, 0)
    return first + centre, variances, second.sub_(_pair_products(first, diagonal))


def _pair_products(x: Tensor, diagonal: bool) -> Tensor:
    """Multiply channels in pairs: (..., d) → (..., pairs).

    Channels are picked by a product with a 0/1 matrix, which is as exact as gathering them and several times faster.
    """
    d = x.shape[-1]
    first, second = (F.one_hot(which, d).T.to(x.dtype) for which in channel_pairs(d, diagonal, x.device))
    return (x @ first).mul_(x @ second)


def _window_products(x: Tensor, size: tuple[int, int], stride: tuple[int, int], diagonal: bool) -> Tensor:
    """Sum x_i x_j over windows: (n, h, w, d) → (n, window rows, window columns, pairs)."""
    windows = x.unfold(1, size[0], stride[0]).unfold(2, size[1], stride[1])  # (n, R, C, d, height, width), a view
    n, rows, columns, d = windows.shape[:4]
    pixels = windows.permute(0, 1, 2, 4, 5, 3).reshape(n * rows * columns, size[0] * size[1], d)
    products = (pixels.transpose(1, 2) @ pixels).flatten(1)  # (windows, d²)
    first, second = channel_pairs(d, diagonal, x.device)
    return products.index_select(1, first * d + second).view(n, rows, columns, len(first))


def _sliding_sums(tiles: Tensor, grid: BlockGrid) -> Tensor:
    """Sum tiles into blocks, rows then columns: (n, tile rows, tile columns, k) → (n, block rows, block columns, k)."""
    (r, c), (sy, sx), (th, tw) = grid.block, grid.stride, grid.tile
    summed = F.avg_pool2d(tiles.permute(0, 3, 1, 2), (r // th, 1), (sy // th, 1), divisor_override=1)
    summed = F.avg_pool2d(summed, (1, c // tw), (1, sx // tw), divisor_override=1)
    return summed.permute(0, 2, 3, 1)


def _block_means(x: Tensor, grid: BlockGrid) -> Tensor:
    """Average each block: (n, h, w, d) → (n, block rows, block columns, d)."""
    return F.avg_pool2d(x.permute(0, 3, 1, 2), grid.block, grid.stride).permute(0, 2, 3, 1)


def _reciprocal_root(variance: Tensor) -> Tensor:
    """Return 1/√variance, and 0 where there is no variance."""
    return torch.where(variance > 0, variance.rsqrt(), 0)
