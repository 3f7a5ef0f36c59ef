"""Stage 5: second-order pooling (section 2.3.2): z-scored r×c blocks → channel covariance → upper triangle.

The covariance of z-scored data needs only sums over the block. Along each axis either whole blocks are summed, or tiles
of gcd(block, stride) pixels whose sums are added up to blocks, whichever is cheaper. Each map is first shifted by its
mean: the covariance stays the same, and the sums do not cancel.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..config.geometry import BlockGrid, ZScore

FLAT = 0.01  # of a map's standard deviation: a block that varies less is mostly rounding error


def channel_pairs(channels: int, diagonal: bool, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Return the channels (i, j) of each second-order feature: the upper triangle, row by row."""
    rows, columns = torch.triu_indices(channels, channels, 0 if diagonal else 1, device=device)
    return rows, columns


def second_order_pool(maps: Tensor, grid: BlockGrid, z_score: ZScore = "channel", diagonal: bool = True) -> Tensor:
    """Return the upper triangle of each block's channel covariance, shape (n, block rows, block columns, pairs).

    Maps (n, d, h, w) are rectified. The paper does not say which values share a mean and a standard deviation.
    ``"channel"``: one channel of a block, so the covariance becomes a correlation. ``"block"``: all channels of a
    block. A channel that is flat in a block, compared with its map, has z = 0 there. The diagonal are the variances.
    With the ``"channel"`` z-score they are all 1, or 0 in a flat channel.
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
    x = maps.permute(0, 2, 3, 1)  # channels last: the products of a pixel are contiguous
    centre = x.mean((1, 2), keepdim=True)
    x = (x - centre).contiguous()
    second = _block_products(x, grid, diagonal).div_(grid.block[0] * grid.block[1])
    first = _block_means(x, grid)
    square = _block_means(x.square(), grid)
    variances = square - first.square()
    # A block is flat if it varies a hundred times less than its map, or less than rounding error.
    eps = torch.finfo(maps.dtype).eps
    floor = 32 * eps * square + (16 * eps * centre).square_() + x.square().mean((1, 2), keepdim=True).mul_(FLAT**2)
    variances = torch.where(variances > floor, variances, 0)
    return first + centre, variances, second.sub_(_pair_products(first, diagonal))


def _pair_products(x: Tensor, diagonal: bool) -> Tensor:
    """Multiply channels in pairs: (..., d) → (..., pairs).

    Channels are selected by a product with a 0/1 matrix: as exact as indexing, and several times faster.
    """
    d = x.shape[-1]
    first, second = (F.one_hot(which, d).T.to(x.dtype) for which in channel_pairs(d, diagonal, x.device))
    return (x @ first).mul_(x @ second)


def _block_products(x: Tensor, grid: BlockGrid, diagonal: bool) -> Tensor:
    """Sum x_i x_j over blocks: (n, h, w, d) → (n, block rows, block columns, pairs)."""
    windows = grid.windows
    found = _window_products(x, windows, diagonal)
    for axis in (0, 1):
        block, stride, tile = grid.block[axis], grid.stride[axis], windows.block[axis]
        if (tile, windows.stride[axis]) != (block, stride):
            found = _sliding_sums(found, 1 + axis, block // tile, stride // tile)
    return found


def _window_products(x: Tensor, windows: BlockGrid, diagonal: bool) -> Tensor:
    """Sum x_i x_j over windows: (n, h, w, d) → (n, window rows, window columns, pairs)."""
    (height, width), (down, right) = windows.block, windows.stride
    seen = x.unfold(1, height, down).unfold(2, width, right)  # (n, R, C, d, height, width), a view
    n, rows, columns, d = seen.shape[:4]
    pixels = seen.permute(0, 1, 2, 4, 5, 3).reshape(n * rows * columns, height * width, d)
    products = (pixels.transpose(1, 2) @ pixels).flatten(1)  # (windows, d²)
    first, second = channel_pairs(d, diagonal, x.device)
    return products.index_select(1, first * d + second).view(n, rows, columns, len(first))


def _sliding_sums(x: Tensor, axis: int, size: int, stride: int) -> Tensor:
    """Sum ``size`` neighbours every ``stride`` places, along rows (axis 1) or columns (2): (n, h, w, k) → (n, …, k).

    Neighbours are summed by a product with a 0/1 matrix: on a CPU many times faster than a pooling layer.
    """
    n, height, width, k = x.shape
    places = torch.arange(x.shape[axis], device=x.device)
    starts = places[: x.shape[axis] - size + 1 : stride, None]
    inside = ((places >= starts) & (places < starts + size)).to(x.dtype)  # (sums, places)
    if axis == 2:
        return inside @ x
    return (inside @ x.reshape(n, height, width * k)).view(n, -1, width, k)


def _block_means(x: Tensor, grid: BlockGrid) -> Tensor:
    """Average each block: (n, h, w, d) → (n, block rows, block columns, d)."""
    (r, c), (sy, sx) = grid.block, grid.stride
    return _sliding_sums(_sliding_sums(x, 1, r, sy), 2, c, sx).div_(r * c)


def _reciprocal_root(variance: Tensor) -> Tensor:
    """Return 1/√variance, and 0 where the variance is 0."""
    return torch.where(variance > 0, variance.rsqrt(), 0)
