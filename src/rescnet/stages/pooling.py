"""Stage 6: the spatial pyramid of PCANet (section 2.3.2); and stages 5 and 6 together, from maps to features.

Each level p divides the map into p×p cells; the second-order features of the blocks in a cell are reduced to one. On a
GPU :mod:`rescnet.kernels.pooling` replaces :func:`pool_features`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..config.choices import Rectifier, Reduction, ZScore
from ..config.geometry import BlockGrid, Cell
from .convolution import rectify
from .second_order import second_order_pool


def pyramid_pool(blocks: Tensor, cells: list[Cell], reduction: Reduction = "max") -> Tensor:
    """Reduce the features of each cell's blocks, elementwise.

    Parameters
    ----------
    blocks : Tensor, shape (n, block rows, block columns, pairs)
    reduction : {"max", "mean"}
        PCANet and this paper take the maximum, PCANet+ the mean.

    Returns
    -------
    Tensor, shape (n, cells·pairs), cell after cell
    """
    if reduction == "mean":  # one product with the weight of each block in each cell
        shares = blocks.new_zeros(len(cells), *blocks.shape[1:3])
        for share, c in zip(shares, cells, strict=True):
            share[c.top : c.bottom, c.left : c.right] = 1 / ((c.bottom - c.top) * (c.right - c.left))
        return (shares.flatten(1) @ blocks.flatten(1, 2)).flatten(1)
    # Rows first: reducing one contiguous axis at a time is an order of magnitude faster than two at once.
    pooled = [blocks[:, c.top : c.bottom].amax(1)[:, c.left : c.right].amax(1) for c in cells]
    return torch.cat(pooled, dim=1)


def pool_features(
    maps: Tensor,
    grid: BlockGrid,
    cells: list[Cell],
    z_score: ZScore = "channel",
    diagonal: bool = True,
    reduction: Reduction = "max",
) -> Tensor:
    """Return the features of the positive parts of ``maps`` (n, d, h, w), shape (n, cells·pairs)."""
    return pyramid_pool(second_order_pool(rectify(maps), grid, z_score, diagonal), cells, reduction)


def pooling_input(maps: Tensor, rectifier: Rectifier) -> Tensor:
    """Return the maps whose positive parts are pooled: (n, d, h, w), or (n, 2d, h, w) for both signs."""
    return torch.cat([maps, -maps], dim=1) if rectifier == "both" else maps
