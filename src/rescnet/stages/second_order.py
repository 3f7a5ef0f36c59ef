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

from ..config.geometry import BlockGrid, Cell, ZScore

Pyramid = tuple[BlockGrid, list[Cell]]  # the blocks of one size, and the cells they are pooled in
Sums = tuple[tuple[int, int], list[Tensor]]  # rows and columns of tiles that are summed, and the sums at each place
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


def block_statistics(
    maps: Tensor, grid: BlockGrid, z_score: ZScore = "channel", diagonal: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Return means m and factors s of z = (x - m)·s, shape (n, R, C, d), and :func:`second_order_pool`."""
    means, variances, covariances = _block_covariances(maps, grid, diagonal)
    scales = _scales(means, variances, z_score, -1)
    return means, scales, covariances.mul_(_pair_products(scales, diagonal))


def mean_correlations(
    maps: Tensor, pyramids: list[Pyramid], z_score: ZScore = "channel", diagonal: bool = True
) -> list[Tensor]:
    """Return, for each pyramid, the means of :func:`second_order_pool` over cells, shape (n, cells·pairs).

    For exported models: few operations, which other runtimes compute fast. Pairs of channels are gathered, and pyramids
    share sums. The means over a cell of products of z-scores are those of s_i·s_j·x_i·x_j, less those of the means'
    products: matrix products of blocks. Places where no block begins hold sums across borders, with weight 0.
    """
    d = maps.shape[1]
    x, centre, power, tile, places = _tiles(maps, pyramids)
    x = x.permute(0, 1, 3, 5, 2, 4).reshape(-1, d, tile[0] * tile[1], places[0] * places[1])
    i, j = channel_pairs(d, diagonal, maps.device)
    moments, products = torch.cat([x, x.square()], 1).sum(2), (x.index_select(1, i) * x.index_select(1, j)).sum(2)
    of_tiles = (1, 1), [moments, products]
    found, before = [], of_tiles
    for grid, cells in pyramids:
        before, area = _block_sums(of_tiles, before, grid, tile, places[1]), prod(grid.block)
        parts = before[1]
        (first, square), sums = torch.split(parts[0] / area, d, dim=1), parts[1]  # (n, d or pairs, places)
        shares = _shares_of_places(grid, tile, places, cells, maps)[:, : first.shape[2]]
        scale = _scales(first + centre, _variances(first, square, centre, power), z_score, 1)
        sums = sums * scale.index_select(1, i) * scale.index_select(1, j) @ (shares.T / area)  # (n, pairs, cells)
        first = (first * scale).unsqueeze(1)
        means = ((first * shares[:, None]) @ first.transpose(2, 3)).flatten(2)  # (n, cells, d²)
        found.append((sums.transpose(1, 2) - means.index_select(2, i * d + j)).flatten(1))
    return found


def tile_of(grids: list[BlockGrid]) -> tuple[int, int]:
    """Return the largest tile that divides every block of every grid."""
    return gcd(*(grid.tile[0] for grid in grids)), gcd(*(grid.tile[1] for grid in grids))


def _block_sums(of_tiles: Sums, before: Sums, grid: BlockGrid, tile: tuple[int, int], width: int) -> Sums:
    """Return sums over the blocks that begin at each place, from those of smaller blocks if they divide, else of tiles.

    ``width`` is the number of places per row.
    """
    size = grid.block[0] // tile[0], grid.block[1] // tile[1]
    (rows, columns), parts = of_tiles if size[0] % before[0][0] or size[1] % before[0][1] else before
    parts = [_neighbour_sums(part, size[1] // columns, columns) for part in parts]
    return size, [_neighbour_sums(part, size[0] // rows, rows * width) for part in parts]


def _tiles(maps: Tensor, pyramids: list[Pyramid]) -> tuple[Tensor, Tensor, Tensor, tuple[int, int], tuple[int, int]]:
    """Return maps less their means, in tiles that all blocks consist of.

    Its shape is (n, d, rows of tiles, tile height, columns of tiles, tile width). Means and variances of the maps
    (n, d, 1) follow, then the size of a tile, and the rows and columns of tiles.
    """
    d, h, w = maps.shape[1:]
    tile = tile_of([grid for grid, _ in pyramids])
    places = h // tile[0], w // tile[1]
    centre = maps.mean((2, 3), keepdim=True)
    x = maps - centre
    power = x.square().mean((2, 3)).unsqueeze(2)
    x = x[:, :, : places[0] * tile[0], : places[1] * tile[1]].reshape(-1, d, places[0], tile[0], places[1], tile[1])
    return x, centre.flatten(2), power, tile, places


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


def _scales(means: Tensor, variances: Tensor, z_score: ZScore, channels: int) -> Tensor:
    """Return the factor of each channel of each block, 1/σ or 0; ``channels`` is their axis."""
    if z_score == "channel":
        return _reciprocal_root(variances)
    within, between = variances.mean(channels, keepdim=True), means.var(channels, correction=0, keepdim=True)
    return _reciprocal_root(within + between) * (variances > 0)


def _neighbour_sums(x: Tensor, count: int, distance: int) -> Tensor:
    """Add up ``count`` numbers that lie ``distance`` apart, from each place: (…, m) → (…, m - (count - 1)·distance)."""
    size = x.shape[-1] - (count - 1) * distance
    total, reach = None, 0
    for bit in range(count.bit_length()):  # x holds the sums of 2**bit numbers
        if count >> bit & 1:
            part = x.narrow(-1, reach * distance, size)
            total, reach = part if total is None else total + part, reach + 2**bit
        if count >> bit > 1:
            step = 2**bit * distance
            x = x[..., :-step] + x[..., step:]
    assert total is not None
    return total


def _shares_of_places(
    grid: BlockGrid, tile: tuple[int, int], places: tuple[int, int], cells: list[Cell], like: Tensor
) -> Tensor:
    """Return the weight in each cell of the block that begins at each place, shape (cells, places)."""
    shares = np.zeros((len(cells), *places))
    starts = shares[:, :: grid.stride[0] // tile[0], :: grid.stride[1] // tile[1]]
    for share, c in zip(starts, cells, strict=True):
        share[c.top : c.bottom, c.left : c.right] = 1 / ((c.bottom - c.top) * (c.right - c.left))
    return torch.as_tensor(shares.reshape(len(cells), -1), dtype=like.dtype, device=like.device)


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
    positive = variance > 0  # torch.where is many times slower on a CPU
    return (variance + ~positive).rsqrt() * positive
