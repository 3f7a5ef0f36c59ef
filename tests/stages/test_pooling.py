from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from conftest import tolerance

from rescnet.config.geometry import BlockGrid, pyramid_cells
from rescnet.fused.pooling_cpu import compiled_pool
from rescnet.stages.pooling import pool_features, pyramid_pool
from rescnet.stages.second_order import mean_correlations

GRIDS = [  # map, block, stride
    ((32, 32), (16, 16), (4, 4)),  # CIFAR-100
    ((32, 32), (16, 16), (1, 1)),  # CIFAR-10
    ((28, 28), (7, 7), (4, 4)),  # MNIST
    ((64, 64), (32, 32), (8, 8)),  # TinyImageNet
    ((12, 18), (3, 5), (2, 3)),
    ((11, 9), (3, 3), (1, 1)),  # odd blocks, stride 1: the last centre lies past PCANet's own range
]

BLOCKS = [((4, 4), (2, 2)), ((3, 7), (2, 1)), ((6, 4), (3, 4)), ((2, 2), (3, 4))]  # with their strides


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
@pytest.mark.parametrize(("block", "stride"), BLOCKS)
@pytest.mark.parametrize("channels", [1, 4, 5])
def test_mean_correlations_match_the_loops(channels, block, stride, z_score, diagonal, generator, dtype):
    """Overlapping blocks, odd blocks, blocks of several tiles, gaps; odd and even numbers of channels."""
    maps, grid, expected = flat_in_places(channels, block, stride, z_score, diagonal, "mean", generator, dtype)
    pyramid = grid, pyramid_cells(grid, (2, 1), "adaptive")
    for found in (
        *mean_correlations(maps.relu(), [pyramid], z_score, diagonal),
        pool_features(maps, [pyramid], z_score, diagonal, "mean"),
    ):
        np.testing.assert_allclose(found, expected, **tolerance(dtype))


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("reduction", ["max", "mean"])
@pytest.mark.parametrize(("block", "stride"), [*BLOCKS, ((7, 11), (1, 1)), ((11, 13), (1, 1))])
def test_compiled_pooling_matches_the_loops(block, stride, reduction, diagonal, generator, dtype):
    maps, grid, expected = flat_in_places(5, block, stride, "channel", diagonal, reduction, generator, dtype)
    levels = tuple(level for level in (2, 1) if level <= min(grid.shape))
    found = compiled_pool(maps, [(grid, pyramid_cells(grid, levels, "adaptive"))], diagonal, reduction)
    np.testing.assert_allclose(found, expected, **tolerance(dtype))


def flat_in_places(channels, block, stride, z_score, diagonal, reduction, generator, dtype):
    """Return maps that are flat in some blocks, their grid, and the features of the loops, at levels 2 and 1."""
    maps = torch.randn(3, channels, 11, 13, generator=generator, dtype=dtype)
    maps[0, 0, :5] = maps[1, :, 2:9] = 0.5
    blocks = naive.second_order(maps.relu().double().numpy(), block, stride, z_score, diagonal)
    levels = tuple(level for level in (2, 1) if level <= min(blocks.shape[1:3]))
    return maps, BlockGrid((11, 13), block, stride), naive.pyramid_adaptive(blocks, levels, reduction)


@pytest.mark.parametrize("reduction", ["max", "mean"])
@pytest.mark.parametrize("blocks", [(4, 8), (8, 4), (4, 6, 12), (3, 5)])
@pytest.mark.parametrize("channels", [1, 5, 40])
def test_pyramids_pooled_together_equal_each_alone(channels, blocks, reduction, generator):
    """Rows of 40 pairs are more than are multiplied at a time."""
    maps = torch.randn(2, channels, 16, 16, generator=generator, dtype=torch.float64)
    grids = [BlockGrid((16, 16), (block, block), (2, 2)) for block in blocks]
    pyramids = [(grid, pyramid_cells(grid, (2, 1), "adaptive")) for grid in grids]
    alone = [pool_features(maps, [pyramid], reduction=reduction) for pyramid in pyramids]
    if reduction == "mean":
        torch.testing.assert_close(mean_correlations(maps.relu(), pyramids), alone, rtol=1e-10, atol=1e-12)
    compiled = compiled_pool(maps, pyramids, diagonal=True, reduction=reduction)
    torch.testing.assert_close(compiled, torch.cat(alone, 1), rtol=1e-10, atol=1e-12)


def test_an_image_is_pooled_alike_alone_and_among_others(generator):
    maps = torch.randn(7, 5, 12, 12, generator=generator)
    maps[3] *= 1e4
    grid = BlockGrid((12, 12), (4, 4), (2, 2))
    pyramids = [(grid, pyramid_cells(grid, (2, 1), "adaptive"))]
    together = compiled_pool(maps, pyramids, diagonal=True, reduction="mean")
    alone = torch.cat([compiled_pool(one[None], pyramids, diagonal=True, reduction="mean") for one in maps])
    assert torch.equal(together, alone)


def test_pixels_that_are_not_numbers_are_not_hidden():
    """Nor do they reach the next image, through a buffer that both use."""
    maps = torch.rand(2, 3, 8, 8)
    maps[0, 0, 3, 3] = torch.nan
    grid = BlockGrid((8, 8), (4, 4), (2, 2))
    pyramids = [(grid, pyramid_cells(grid, (1,), "adaptive"))]
    found = compiled_pool(maps, pyramids, diagonal=True, reduction="mean")
    assert not bool(found[0].isfinite().all())
    assert torch.equal(found[1:], compiled_pool(maps[1:], pyramids, diagonal=True, reduction="mean"))
