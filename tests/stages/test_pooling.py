from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from conftest import tolerance

from rescnet.config.geometry import BlockGrid, pyramid_cells
from rescnet.stages.pooling import pool_features, pool_pyramids, pyramid_pool
from rescnet.stages.second_order import exported_correlations

GRIDS = [  # map, block, stride
    ((32, 32), (16, 16), (4, 4)),  # CIFAR-100
    ((32, 32), (16, 16), (1, 1)),  # CIFAR-10
    ((28, 28), (7, 7), (4, 4)),  # MNIST
    ((64, 64), (32, 32), (8, 8)),  # TinyImageNet
    ((12, 18), (3, 5), (2, 3)),
    ((11, 9), (3, 3), (1, 1)),  # odd blocks, stride 1: the last centre lies past PCANet's own range
]


@pytest.mark.parametrize("reduction", ["max", "mean"])
@pytest.mark.parametrize("cells", ["official", "adaptive"])
@pytest.mark.parametrize(("size", "block", "stride"), GRIDS)
@pytest.mark.parametrize("levels", [(4, 2, 1), (1,), (3, 4)])
def test_pyramid_matches_the_loop(size, block, stride, cells, reduction, levels, generator):
    grid = BlockGrid(size, block, stride)
    blocks = torch.randn(2, *grid.shape, 3, generator=generator, dtype=torch.float64)
    found = pyramid_pool(blocks, pyramid_cells(grid, levels, cells), reduction)
    if cells == "official":
        expected = naive.pyramid_official(blocks.numpy(), size, block, stride, levels, reduction)
    else:
        expected = naive.pyramid_adaptive(blocks.numpy(), levels, reduction)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("z_score", ["channel", "block"])
@pytest.mark.parametrize(("block", "stride"), [((4, 4), (2, 2)), ((3, 7), (2, 1)), ((6, 4), (3, 4)), ((2, 2), (3, 4))])
@pytest.mark.parametrize("channels", [1, 4, 5])
def test_mean_correlations_match_the_loops(channels, block, stride, z_score, diagonal, generator, dtype):
    """Overlapping blocks, odd blocks, blocks of several tiles, gaps; odd and even numbers of channels."""
    maps = torch.randn(3, channels, 11, 13, generator=generator, dtype=dtype)
    maps[0, 0, :5] = maps[1, :, 2:9] = 0.5  # flat in some blocks
    grid = BlockGrid((11, 13), block, stride)
    found = pool_features(maps, grid, pyramid_cells(grid, (2, 1), "adaptive"), z_score, diagonal, "mean")
    blocks = naive.second_order(maps.relu().double().numpy(), block, stride, z_score, diagonal)
    expected = naive.pyramid_adaptive(blocks, (2, 1), "mean")
    np.testing.assert_allclose(found, expected, **tolerance(dtype))
    pyramids = [(grid, pyramid_cells(grid, (2, 1), "adaptive"))]
    (exported,) = exported_correlations(maps.relu(), pyramids, z_score, diagonal)
    np.testing.assert_allclose(exported, expected, **tolerance(dtype))


@pytest.mark.parametrize("blocks", [(4, 8), (8, 4), (4, 6, 12), (3, 5)])
def test_pyramids_pooled_together_equal_each_alone(blocks, generator):
    maps = torch.randn(2, 5, 16, 16, generator=generator, dtype=torch.float64)
    grids = [BlockGrid((16, 16), (block, block), (2, 2)) for block in blocks]
    pyramids = [(grid, pyramid_cells(grid, (2, 1), "adaptive")) for grid in grids]
    for together in (pool_pyramids(maps, pyramids, reduction="mean"), exported_correlations(maps.relu(), pyramids)):
        for (grid, cells), found in zip(pyramids, together, strict=True):
            alone = pool_features(maps, grid, cells, reduction="mean")
            torch.testing.assert_close(found, alone, rtol=1e-10, atol=1e-12)
