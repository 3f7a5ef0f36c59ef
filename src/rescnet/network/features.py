"""From a layer's maps to its features: stages 5 and 6, once for every block size, and what is added to them."""

from __future__ import annotations

import torch
from torch import Tensor

from ..config.network import NetworkConfig
from ..kernels import pooling_for, roots_for
from ..stages.pooling import block_means, pooling_input, rectified, signed_power


def layer_features(config: NetworkConfig, maps: Tensor) -> Tensor:
    """Return the features F of maps O (n, d_i, h, w), shape (n, D)."""
    height, width = maps.shape[2:]
    pooled_maps = pooling_input(maps, config.rectifier)
    pool, relu = pooling_for(pooled_maps), config.rectifier != "none"
    found = []
    for grid, cells in config.grids((height, width)):
        pairs = pool(pooled_maps, grid, cells, config.z_score, config.keeps_diagonal, config.pooling, relu)
        if config.matrix_root:
            pairs = roots_for(pairs, config.pooled_maps)(pairs, config.pooled_maps, config.keeps_diagonal)
        found.append(pairs)
        if config.means:
            found.append(block_means(rectified(maps, config.rectifier), grid, cells, config.pooling))
    features = found[0] if len(found) == 1 else torch.cat(found, dim=1)
    return features if config.feature_power == 1 else signed_power(features, config.feature_power)
