"""Shares of an image's pixels in linear functions of its pooled features; beyond the paper.

A correlation is the mean of z_i(p)·z_j(p) over the pixels p of a block. A cell of the pyramid is the mean of its
blocks, or one of them. So a function that is linear in the features, w·f, is exactly a sum over pixels. A matrix
logarithm L is homogeneous of degree ½ in the cell's matrix P, by its factor √(tr P). By Euler's theorem
w·L(A) = 2⟨∇(w·L)(A), A⟩: linear in A, with other weights.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..config.geometry import Cell, Reduction
from .pooling import matrix_logs, pyramid_pool
from .second_order import Pyramid, channel_pairs, second_order_pool, z_scores


def pixel_shares(maps: Tensor, pyramids: list[Pyramid], weights: Tensor, reduction: Reduction, logs: bool) -> Tensor:
    """Return the share of each pixel in f·W, shape (K, h, w); the sum over pixels is f·W.

    ``maps`` (d, h, w) are the rectified maps of one image, and f (D,) their features: matrix logarithms if ``logs``,
    else correlations without the diagonal. ``weights`` are W (D, K).
    """
    channels, height, width = maps.shape
    first, second = channel_pairs(channels, logs, maps.device)
    total = maps.new_zeros(weights.shape[1], height, width)
    of_cells = weights.view(-1, len(first), weights.shape[1])
    of_grids = torch.split(of_cells, [len(cells) for _, cells in pyramids])
    for (grid, cells), part in zip(pyramids, of_grids, strict=True):
        blocks = second_order_pool(maps[None], grid, diagonal=logs)
        if logs:
            part = _before_logs(pyramid_pool(blocks, cells, reduction), channels, part)
        group, of_groups = _block_weights(blocks[0], cells, part, reduction)
        z = z_scores(maps, grid)  # (blocks, pixels, d)
        shares = z.new_empty(len(total), z.shape[1], len(z))
        matrix = z.new_zeros(channels, channels, len(total))
        for number, weight in enumerate(of_groups):
            matrix[first, second] = weight / z.shape[1]
            chosen = group == number
            pixels = z[chosen].flatten(0, 1)
            products = (pixels @ matrix.transpose(1, 2).flatten(1)).view(-1, len(total), channels)
            found = (products @ pixels.unsqueeze(2)).view(-1, z.shape[1], len(total))
            shares[:, :, chosen] = found.permute(2, 1, 0)
        total += F.fold(shares, (height, width), grid.block, stride=grid.stride)[:, 0]
    return total


def _before_logs(features: Tensor, channels: int, weights: Tensor) -> Tensor:
    """Return 2∇(w·L) of cells (1, cells·pairs) for weights (cells, pairs, K), of the same shape."""
    with torch.inference_mode(False), torch.enable_grad():
        inner = features.clone().requires_grad_()
        found = matrix_logs(inner, channels)
        columns = weights.clone().permute(2, 0, 1).flatten(1).unsqueeze(1)  # (K, 1, cells·pairs)
        gradients = [torch.autograd.grad((found * w).sum(), inner, retain_graph=True)[0] for w in columns]
    return 2 * torch.cat(gradients).view(weights.shape[2], *weights.shape[:2]).permute(1, 2, 0)


def _block_weights(blocks: Tensor, cells: list[Cell], weights: Tensor, reduction: Reduction) -> tuple[Tensor, Tensor]:
    """Return the group of each block (R·C,), and the weights of each group's blocks (groups, pairs, K).

    Blocks (R, C, pairs) of a group have the same weights, from those of the cells (cells, pairs, K). In a mean that are
    blocks of the same cells; a maximum makes each block a group.
    """
    rows, columns, pairs = blocks.shape
    number = torch.arange(rows * columns, device=blocks.device).view(rows, columns)
    inside = [number[c.top : c.bottom, c.left : c.right].flatten() for c in cells]
    if reduction == "mean":
        shares = weights.new_zeros(len(cells), rows * columns)
        for share, chosen in zip(shares, inside, strict=True):
            share[chosen] = 1 / len(chosen)
        sets, group = torch.unique(shares, dim=1, return_inverse=True)
        return group, torch.einsum("cg,cpk->gpk", sets, weights)
    found = weights.new_zeros(rows * columns, pairs, weights.shape[2])
    for chosen, weight in zip(inside, weights, strict=True):
        largest = chosen[blocks.flatten(0, 1)[chosen].argmax(0)]  # (pairs,)
        found[largest, torch.arange(pairs, device=largest.device)] += weight
    return number.flatten(), found
