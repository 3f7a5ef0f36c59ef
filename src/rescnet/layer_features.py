"""From a layer's maps to its features: stages 5 and 6, once for every block size, and what is added to them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .config import NetworkConfig
from .feature_options import Rectifier
from .kernels import pooling_for
from .stages.pyramid import Cell, Reduction, pyramid_pool
from .stages.roots import matrix_roots
from .stages.second_order import BlockGrid


def layer_features(config: NetworkConfig, maps: Tensor) -> Tensor:
    """Return the features F of maps O (n, d_i, h, w), shape (n, D)."""
    height, width = maps.shape[2:]
    pooled_maps = pooling_input(maps, config.rectifier)
    pool, relu = pooling_for(pooled_maps), config.rectifier != "none"
    found = []
    for grid, cells in config.grids((height, width)):
        pairs = pool(pooled_maps, grid, cells, config.z_score, config.keeps_diagonal, config.pooling, relu)
        found.append(matrix_roots(pairs, config.pooled_maps, config.keeps_diagonal) if config.matrix_root else pairs)
        if config.means:
            found.append(block_means(pooled_maps.clamp_min(0) if relu else pooled_maps, grid, cells, config.pooling))
    features = found[0] if len(found) == 1 else torch.cat(found, dim=1)
    return features if config.feature_power == 1 else signed_power(features, config.feature_power)


def pooling_input(maps: Tensor, rectifier: Rectifier) -> Tensor:
    """Return the maps whose positive part is pooled, or all with "none": (n, d, h, w), (n, 2d, h, w) for both signs."""
    if rectifier == "both":
        return torch.cat([maps, -maps], dim=1)
    if rectifier == "abs":
        return maps.abs()
    return maps


def block_means(maps: Tensor, grid: BlockGrid, cells: list[Cell], reduction: Reduction) -> Tensor:
    """Return the mean of each map (n, d, h, w), rectified, over each block, pooled like the rest, (n, cells·d)."""
    means = F.avg_pool2d(maps, grid.block, grid.stride)
    return pyramid_pool(means.permute(0, 2, 3, 1), cells, reduction)


def signed_power(features: Tensor, power: float) -> Tensor:
    """Return sign(f)·|f|ᵖ."""
    return features.sign() * features.abs().pow_(power)
