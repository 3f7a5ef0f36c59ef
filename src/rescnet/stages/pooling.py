"""Stages 5 and 6 together: maps → features. On a GPU ``kernels.pooling`` stands in for it."""

from __future__ import annotations

import torch
from torch import Tensor

from ..config.choices import Rectifier, Reduction, ZScore
from ..config.geometry import BlockGrid, Cell
from .convolution import rectify
from .pyramid import pyramid_pool
from .second_order import second_order_pool


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
