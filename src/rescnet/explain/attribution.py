"""Shares of an image's pixels in linear functions of its pooled features; beyond the paper.

A correlation is the mean of z_i(p)·z_j(p) over the pixels p of a block. A cell of the pyramid is the mean of its
blocks, or one of them. So a function that is linear in the features, w·f, is exactly a sum over pixels. A matrix
logarithm L is homogeneous of degree ½ in the cell's matrix P, by its factor √(tr P). By Euler's theorem
w·L(A) = 2⟨∇(w·L)(A), A⟩: linear in A, with other weights.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from ..config.geometry import BlockGrid, Cell, Reduction
from ..stages.pooling import matrix_logs, pyramid_pool
from ..stages.second_order import Pyramid, block_statistics, blocks_of_tiles, cell_shares, channel_pairs


def pixel_shares(maps: Tensor, pyramids: list[Pyramid], weights: Tensor, reduction: Reduction, logs: bool) -> Tensor:
    """Return the share of each pixel in f·W, shape (K, h, w); the sum over pixels is f·W.

    ``maps`` (d, h, w) are the rectified maps of one image, and f (D,) their features: matrix logarithms if ``logs``,
    else correlations without the diagonal. ``weights`` are W (D, K).
    """
    channels = len(maps)
    first, second = channel_pairs(channels, logs, maps.device)
    of_grids = torch.split(weights.view(-1, len(first), weights.shape[1]), [len(cells) for _, cells in pyramids])
    total = maps.new_zeros(weights.shape[1], *maps.shape[1:])
    for (grid, cells), part in zip(pyramids, of_grids, strict=True):
        means, scales, blocks = (of_image[0] for of_image in block_statistics(maps[None], grid, diagonal=logs))
        if logs:
            part = _before_logs(pyramid_pool(blocks[None], cells, reduction), channels, part)
        of_blocks = _block_weights(blocks, cells, part, reduction)
        matrices = of_blocks.new_zeros(*grid.shape, channels, channels)
        for share, of_class in zip(total, of_blocks.unbind(-1), strict=True):
            matrices[:, :, first, second] = of_class
            share += _shares_of_blocks(maps, grid, means, scales, matrices)
    return total


def _shares_of_blocks(maps: Tensor, grid: BlockGrid, means: Tensor, scales: Tensor, weights: Tensor) -> Tensor:
    """Return Σ w_ij z_i(p) z_j(p) over the blocks of each pixel p and the channels i and j, shape (h, w).

    ``weights`` (R, C, d, d) belong to each block's correlations. In a block, z = (x - m)·s is linear in y = (x, 1), so
    a pixel has the share yᵀQy. The pixels of a tile are in the same blocks, whose Q are added up before. Float64 keeps
    the digits that the terms lose when they cancel.
    """
    (height, width), (down, right) = grid.map_size, grid.tile
    x, centre = maps.permute(1, 2, 0).double(), maps.mean((1, 2), dtype=torch.float64)
    means, scales = means.double() - centre, scales.double()
    to_z = torch.cat([scales.diag_embed(), -(means * scales)[..., None]], -1)  # (R, C, d, d + 1)
    of_blocks = (to_z.mT @ (weights.double() / prod(grid.block)) @ to_z).flatten(2)
    y = F.pad(F.pad(x - centre, (0, 1), value=1), (0, 0, 0, -width % right, 0, -height % down))
    tiles = y.view(-1, down, y.shape[1] // right, right, y.shape[2]).transpose(1, 2)  # (rows, columns, down, right, …)
    rows, columns = (blocks_of_tiles(grid, axis, grid.tile[axis], of_blocks) for axis in (0, 1))
    shares = torch.empty_like(tiles[..., 0])
    for share, tiles_of_row, row in zip(shares, tiles, rows, strict=True):
        q = (columns @ torch.tensordot(row, of_blocks, 1)).view(-1, y.shape[2], y.shape[2])
        pixels = tiles_of_row.flatten(1, 2)
        share.copy_(((pixels @ q) * pixels).sum(-1).view_as(share))
    return shares.transpose(1, 2).reshape(y.shape[:2])[:height, :width]


def _block_weights(blocks: Tensor, cells: list[Cell], weights: Tensor, reduction: Reduction) -> Tensor:
    """Return the weights of each block's features, shape (R, C, pairs, K), from those of the cells (cells, pairs, K).

    A mean spreads a cell's weight over its blocks. A maximum gives it to one of the blocks (R, C, pairs).
    """
    rows, columns, pairs = blocks.shape
    if reduction == "mean":
        shares = cell_shares((rows, columns), cells, weights).flatten(1)
        return (shares.T @ weights.flatten(1)).view(rows, columns, *weights.shape[1:])
    of_blocks = weights.new_zeros(rows * columns, pairs, weights.shape[2])
    number, pair = (torch.arange(count, device=blocks.device) for count in (rows * columns, pairs))
    for c, weight in zip(cells, weights, strict=True):
        chosen = number.view(rows, columns)[c.top : c.bottom, c.left : c.right].flatten()
        largest = chosen[blocks.flatten(0, 1)[chosen].argmax(0)]  # (pairs,)
        of_blocks[largest, pair] += weight
    return of_blocks.view(rows, columns, *weights.shape[1:])


def _before_logs(features: Tensor, channels: int, weights: Tensor) -> Tensor:
    """Return 2∇(w·L) of cells (1, cells·pairs) for weights (cells, pairs, K), of the same shape."""
    with torch.inference_mode(False), torch.enable_grad():
        inner = features.clone().requires_grad_()
        logs = matrix_logs(inner, channels)
        columns = weights.clone().permute(2, 0, 1).flatten(1).unsqueeze(1)  # (K, 1, cells·pairs)
        gradients = [torch.autograd.grad((logs * w).sum(), inner, retain_graph=True)[0] for w in columns]
    return 2 * torch.cat(gradients).view(weights.shape[2], *weights.shape[:2]).permute(1, 2, 0)
