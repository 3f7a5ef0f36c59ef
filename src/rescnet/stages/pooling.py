"""Stages 5 and 6 together: maps → features. On a GPU ``kernels.pooling`` stands in for it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from .convolution import rectify
from .pyramid import Cell, Reduction, pyramid_pool
from .second_order import BlockGrid, ZScore, second_order_pool

Rectifier = Literal["relu", "both", "abs", "none"]


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


def pooling_input(maps: Tensor, rectifier: Rectifier) -> Tensor:
    """Return the maps whose positive part is pooled, or all with "none": (n, d, h, w), (n, 2d, h, w) for both signs."""
    if rectifier == "both":
        return torch.cat([maps, -maps], dim=1)
    if rectifier == "abs":
        return maps.abs()
    return maps


def rectified(maps: Tensor, rectifier: Rectifier) -> Tensor:
    """Return what is pooled of the maps: their positive parts, or all with "none"."""
    pooled = pooling_input(maps, rectifier)
    return pooled if rectifier == "none" else rectify(pooled)


def block_means(maps: Tensor, grid: BlockGrid, cells: list[Cell], reduction: Reduction) -> Tensor:
    """Return the mean of each map (n, d, h, w), rectified, over each block, pooled like the rest, (n, cells·d)."""
    means = F.avg_pool2d(maps, grid.block, grid.stride)
    return pyramid_pool(means.permute(0, 2, 3, 1), cells, reduction)


def signed_power(features: Tensor, power: float) -> Tensor:
    """Return sign(f)·|f|ᵖ."""
    return features.sign() * features.abs().pow_(power)
