from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from conftest import tolerance
from hypothesis import given, settings
from hypothesis import strategies as st

from rescnet.config.geometry import BlockGrid
from rescnet.stages.second_order import channel_pairs, second_order_pool

GEOMETRIES = [  # block, stride on maps of 9×8
    ((4, 4), (1, 1)),  # overlapping, tiles of one pixel
    ((4, 4), (2, 2)),  # overlapping, tiles of 2×2
    ((4, 2), (4, 2)),  # touching
    ((3, 3), (4, 4)),  # gaps
    ((2, 2), (4, 4)),  # gaps as wide as blocks, which are tiles themselves
    ((2, 6), (3, 1)),  # neither square
    ((9, 8), (1, 1)),  # the whole map
]


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("z_score", ["channel", "block"])
@pytest.mark.parametrize(("block", "stride"), GEOMETRIES)
def test_pooling_matches_the_loop(block, stride, z_score, diagonal, generator, dtype):
    maps = torch.randn(3, 5, 9, 8, generator=generator, dtype=dtype).relu()
    found = second_order_pool(maps, BlockGrid((9, 8), block, stride), z_score, diagonal)
    expected = naive.second_order(maps.double().numpy(), block, stride, z_score, diagonal)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, **tolerance(dtype))


@pytest.mark.parametrize("whole", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(("block", "stride"), GEOMETRIES)
def test_blocks_may_be_made_of_tiles_along_either_axis(block, stride, whole, monkeypatch, generator):
    """All four ways give the same; which one is taken is a matter of time alone."""
    maps = torch.randn(2, 3, 9, 8, generator=generator, dtype=torch.float64)
    grid = BlockGrid((9, 8), block, stride)
    size = tuple(b if all_of_it else t for b, t, all_of_it in zip(block, grid.tile, whole, strict=True))
    step = tuple(s if all_of_it else t for s, t, all_of_it in zip(stride, grid.tile, whole, strict=True))
    windows = BlockGrid((9, 8), size, step)
    monkeypatch.setattr(BlockGrid, "windows", property(lambda _: windows))
    expected = naive.second_order(maps.numpy(), block, stride, "channel", True)
    np.testing.assert_allclose(second_order_pool(maps, grid).numpy(), expected, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    size=st.tuples(st.integers(4, 10), st.integers(4, 10)),
    block=st.tuples(st.integers(2, 4), st.integers(2, 4)),
    stride=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    seed=st.integers(0, 10**6),
)
def test_pooling_matches_the_loop_at_any_geometry(size, block, stride, seed):
    maps = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = second_order_pool(maps, BlockGrid(size, block, stride), "channel", True)
    np.testing.assert_allclose(found, naive.second_order(maps.numpy(), block, stride, "channel", True), atol=1e-8)


@pytest.mark.parametrize("z_score", ["channel", "block"])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e4])
def test_no_variance_gives_zero_not_nan(z_score, offset, generator):
    maps = torch.rand(2, 4, 8, 8, generator=generator)
    maps[:, 1] = offset  # a constant channel
    maps[0, :, :4, :4] = offset  # a constant block
    found = second_order_pool(maps, BlockGrid((8, 8), (4, 4), (4, 4)), z_score, True)
    assert bool(found.isfinite().all())
    assert bool((found[0, 0, 0] == 0).all())
    rows, columns = channel_pairs(4, True)
    assert bool((found[..., (rows == 1) | (columns == 1)].abs() < 1e-6).all())


def test_channel_z_score_ignores_scale_and_offset_of_a_channel(generator):
    maps = torch.rand(2, 3, 8, 8, generator=generator, dtype=torch.float64)
    changed = maps * torch.tensor([2.0, 0.1, 7]).view(1, 3, 1, 1) + torch.tensor([5.0, -3, 40]).view(1, 3, 1, 1)
    grid = BlockGrid((8, 8), (4, 4), (2, 2))
    torch.testing.assert_close(second_order_pool(maps, grid), second_order_pool(changed, grid))


def test_large_means_do_not_cancel_in_float32(generator):
    maps = 100 + torch.rand(2, 3, 8, 8, generator=generator)
    grid = BlockGrid((8, 8), (4, 4), (2, 2))
    exact = second_order_pool(maps.double(), grid)
    torch.testing.assert_close(second_order_pool(maps, grid).double(), exact, rtol=0, atol=1e-4)


def test_pairs_are_the_upper_triangle_row_by_row():
    rows, columns = channel_pairs(3, diagonal=True)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
