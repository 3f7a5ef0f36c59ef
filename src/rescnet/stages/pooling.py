"""Stages 5 and 6 together: maps → features. On a GPU ``kernels.pooling`` stands in for it."""

from __future__ import annotations

from torch import Tensor

from .convolution import rectify
from .pyramid import Cell, Reduction, pyramid_pool
from .second_order import BlockGrid, ZScore, second_order_pool


def pool_features(
    maps: Tensor,
    grid: BlockGrid,
    cells: list[Cell],
    z_score: ZScore = "channel",
    diagonal: bool = True,
    reduction: Reduction = "max",
    relu: bool = True,
) -> Tensor:
    """Return the features of ``maps`` (n, d, h, w), shape (n, cells·pairs); ``relu``: they are not yet rectified."""
    return pyramid_pool(second_order_pool(rectify(maps) if relu else maps, grid, z_score, diagonal), cells, reduction)
