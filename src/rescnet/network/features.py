"""Features of a layer: stages 5 and 6, once per block size."""

from __future__ import annotations

import torch
from torch import Tensor

from ..config.network import NetworkConfig
from ..kernels import pooling_for, roots_for
from ..stages.pooling import pooling_input


def layer_features(config: NetworkConfig, maps: Tensor) -> Tensor:
    """Return the features F of maps O (n, d_i, h, w), shape (n, D)."""
    height, width = maps.shape[2:]
    pooled_maps = pooling_input(maps, config.rectifier)
    pool = pooling_for(pooled_maps)
    found = []
    for grid, cells in config.grids((height, width)):
        pairs = pool(pooled_maps, grid, cells, "channel", config.keeps_diagonal, config.pooling)
        if config.matrix_root:
            pairs = roots_for(pairs, config.pooled_maps)(pairs, config.pooled_maps, config.keeps_diagonal)
        found.append(pairs)
    return found[0] if len(found) == 1 else torch.cat(found, dim=1)
