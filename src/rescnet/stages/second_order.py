"""Stage 5: second-order pooling (section 2.3.2): z-scored r×c blocks → channel covariance → upper triangle.

:func:`second_order_pool` returns every block, :func:`mean_correlations` only the means over cells of the pyramid.

The covariance of z-scored data needs only sums over the block. Along each axis either whole blocks are summed, or tiles
of gcd(block, stride) pixels whose sums are added up to blocks, whichever is cheaper. Each map is first shifted by its
mean: the covariance stays the same, and the sums do not cancel.
"""

from __future__ import annotations

from math import gcd, prod

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..config.geometry import BlockGrid, Cell, ZScore, count_pairs

Pyramid = tuple[BlockGrid, list[Cell]]  # the blocks of one size, and the cells they are pooled in
FLAT = 0.01  # of a map's standard deviation: a block that varies less is mostly rounding error


def channel_pairs(channels: int, diagonal: bool, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Return the channels (i, j) of each second-order feature: the upper triangle, row by row."""
    rows, columns = np.triu_indices(channels, 0 if diagonal else 1)  # NumPy's are constants in an exported graph
    return torch.as_tensor(rows, device=device), torch.as_tensor(columns, device=device)


def second_order_pool(maps: Tensor, grid: BlockGrid, z_score: ZScore = "channel", diagonal: bool = True) -> Tensor:
    """Return the upper triangle of each block's channel covariance, shape (n, block rows, block columns, pairs).

    Maps (n, d, h, w) are rectified. The paper does not say which values share a mean and a standard deviation.
    ``"channel"``: one channel of a block, so the covariance becomes a correlation. ``"block"``: all channels of a
    block. A channel that is flat in a block, compared with its map, has z = 0 there. The diagonal are the variances.
    With the ``"channel"`` z-score they are all 1, or 0 in a flat channel.
    """
    return block_statistics(maps, grid, z_score, diagonal)[2]


def second_order_numbers(grid: BlockGrid, channels: int, diagonal: bool) -> int:
    """Return the numbers per image in memory that :func:`second_order_pool` takes at most."""
    pairs, windows = count_pairs(channels, diagonal), grid.windows
    maps = 5 * channels * prod(grid.map_size)  # as given, rectified, centred, channels last, squared
    # Of each window: its pixels, their products, and pairs of these. Pairs are then summed along rows.
    sums = prod(windows.shape) * (prod(windows.block) * channels + channels**2 + pairs)
    sums += grid.shape[0] * windows.shape[1] * pairs
    return maps + sums + 3 * prod(grid.shape) * pairs  # of each block: covariances, and both factors of a product


def block_statistics(
    maps: Tensor, grid: BlockGrid, z_score: ZScore = "channel", diagonal: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Return means m and factors s of z = (x - m)·s, shape (n, R, C, d), and :func:`second_order_pool`."""
    means, variances, covariances = _block_covariances(maps, grid, diagonal)
    scales = _scales(means, variances, z_score)
    return means, scales, covariances.mul_(_pair_products(scales, diagonal))


def mean_correlations(
    maps: Tensor, pyramids: list[Pyramid], z_score: ZScore = "channel", diagonal: bool = True
) -> list[Tensor]:
    """Return, for each pyramid, the means of :func:`second_order_pool` over cells, shape (n, cells·pairs).

    For exported models: matrix products, which other runtimes compute fast. Pyramids share the sums over tiles; pairs
    of channels are chosen at the end.
    """
    d, tile = maps.shape[1], tile_of([grid for grid, _ in pyramids])
    first, second = channel_pairs(d, diagonal, maps.device)
    x = maps.permute(0, 2, 3, 1)
    centre = x.mean((1, 2), keepdim=True)
    x = x - centre
    power = x.square().mean((1, 2), keepdim=True)
    places = x.shape[1] // tile[0], x.shape[2] // tile[1]
    x = x[:, : places[0] * tile[0], : places[1] * tile[1]]
    pixels = x.reshape(-1, places[0], tile[0], places[1], tile[1], d).transpose(2, 3).flatten(3, 4)
    of_tiles = pixels.sum(3), (pixels.mT @ pixels).flatten(3)  # (n, rows of tiles, columns of tiles, d or d²)
    of_pyramids = []
    for grid, cells in pyramids:
        rows, columns = (blocks_of_tiles(grid, axis, tile[axis], maps)[: places[axis]].T for axis in (0, 1))
        rows = rows / prod(grid.block)
        of_rows = [(rows @ sums.flatten(2)).view(-1, len(rows), *sums.shape[2:]) for sums in of_tiles]
        means, products = (columns @ sums for sums in of_rows)  # (n, R, C, d or d²)
        scales = _scales(means + centre, _variances(means, products[..., :: d + 1], centre, power), z_score)
        covariances = products.view(*means.shape, d) - means[..., None] * means[..., None, :]
        correlations = covariances * scales[..., None] * scales[..., None, :]
        shares = cell_shares(grid.shape, cells, maps).flatten(1)
        of_cells = shares @ correlations.flatten(3).flatten(1, 2)  # (n, cells, d²)
        of_pyramids.append(of_cells.index_select(2, first * d + second).flatten(1))
    return of_pyramids


def tile_of(grids: list[BlockGrid]) -> tuple[int, int]:
    """Return the largest tile that divides every block of every grid."""
    return gcd(*(grid.tile[0] for grid in grids)), gcd(*(grid.tile[1] for grid in grids))


def blocks_of_tiles(grid: BlockGrid, axis: int, tile: int, like: Tensor) -> Tensor:
    """Return which rows of blocks (columns with axis 1) a row of tiles is in, 0 or 1, shape (tiles, blocks)."""
    tiles, blocks = np.arange(0, grid.map_size[axis], tile)[:, None], np.arange(grid.shape[axis]) * grid.stride[axis]
    inside = (tiles >= blocks) & (tiles < blocks + grid.block[axis])  # NumPy's are constants in an exported graph
    return torch.as_tensor(inside, dtype=like.dtype, device=like.device)


def cell_shares(blocks: tuple[int, ...], cells: list[Cell], like: Tensor) -> Tensor:
    """Return the weight of each of R×C blocks in the mean of each cell, shape (cells, R, C)."""
    shares = np.zeros((len(cells), *blocks))
    for share, c in zip(shares, cells, strict=True):
        share[c.top : c.bottom, c.left : c.right] = 1 / ((c.bottom - c.top) * (c.right - c.left))
    return torch.as_tensor(shares, dtype=like.dtype, device=like.device)


def _block_covariances(maps: Tensor, grid: BlockGrid, diagonal: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return block means (n, R, C, d), variances (n, R, C, d) and covariances of pairs (n, R, C, pairs)."""
    x = maps.permute(0, 2, 3, 1)  # channels last: the products of a pixel are contiguous
    centre = x.mean((1, 2), keepdim=True)
    x = (x - centre).contiguous()
    second = _block_products(x, grid, diagonal).div_(grid.block[0] * grid.block[1])
    first = _block_means(x, grid)
    square = _block_means(x.square(), grid)
    variances = _variances(first, square, centre, x.square().mean((1, 2), keepdim=True))
    return first + centre, variances, second.sub_(_pair_products(first, diagonal))


def _variances(first: Tensor, square: Tensor, centre: Tensor, power: Tensor) -> Tensor:
    """Return the variance of each channel of each block, 0 in a flat one; ``power`` is the variance of the map.

    A block is flat if it varies a hundred times less than its map, or less than rounding error. The larger of both
    decides, not their sum: so the same blocks are flat in float32 and float64.
    """
    eps = torch.finfo(first.dtype).eps
    variances = square - first.square()
    rounding = torch.maximum(32 * eps * square, (16 * eps * centre).square_())
    return variances * (variances > torch.maximum(rounding, power * FLAT**2))


def _scales(means: Tensor, variances: Tensor, z_score: ZScore) -> Tensor:
    """Return the factor of each channel of each block, 1/σ or 0."""
    if z_score == "channel":
        return _reciprocal_root(variances)
    within, between = variances.mean(-1, keepdim=True), means.var(-1, correction=0, keepdim=True)
    return _reciprocal_root(within + between) * (variances > 0)


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
    sums = _window_products(x, windows, diagonal)
    for axis in (0, 1):
        block, stride, tile = grid.block[axis], grid.stride[axis], windows.block[axis]
        if (tile, windows.stride[axis]) != (block, stride):
            sums = _sliding_sums(sums, 1 + axis, block // tile, stride // tile)
    return sums


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
    positive = variance > 0  # torch.where is many times slower on a CPU
    return (variance + ~positive).rsqrt() * positive
