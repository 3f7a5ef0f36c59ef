"""Blocks of second-order pooling and cells of the pyramid."""

from __future__ import annotations

import pytest

from rescnet.config.geometry import BlockGrid, count_pairs, pyramid_cells


@pytest.mark.parametrize(
    ("size", "block", "stride", "expected"),
    [
        (32, 16, 1, (1, 16)),  # the paper's CIFAR-10: strips, an eighth of the products of blocks
        (64, 32, 8, (8, 8)),  # TinyImageNet: tiles
        (28, 7, 4, (7, 7)),  # MNIST: tiles would be single pixels, and blocks hardly overlap
    ],
)
def test_windows_are_the_cheapest(size, block, stride, expected):
    found = BlockGrid((size, size), (block, block), (stride, stride)).windows.block
    assert tuple(sorted(found)) == expected


def test_pairs_with_and_without_the_diagonal():
    assert count_pairs(50, True) == 1275
    assert count_pairs(50, False) == 1225


@pytest.mark.parametrize(("block", "stride"), [((0, 2), (1, 1)), ((2, 2), (1, 0))])
def test_blocks_and_strides_without_a_pixel_are_refused(block, stride):
    with pytest.raises(ValueError, match="block and stride must be at least one pixel"):
        BlockGrid((8, 8), block, stride)


@pytest.mark.parametrize(
    ("size", "block", "stride", "filled"),
    [(32, 16, 4, 14), (32, 16, 1, 14), (64, 32, 8, 14), (28, 7, 4, 21)],
)
def test_official_cells_are_filled_as_in_pcanet(size, block, stride, filled):
    grid = BlockGrid((size, size), (block, block), (stride, stride))
    assert len(pyramid_cells(grid, (4, 2, 1), "official")) == filled
    assert len(pyramid_cells(grid, (4, 2, 1), "adaptive")) == 21


@pytest.mark.parametrize("levels", [(), (2, 0)])
def test_pyramid_levels_without_cells_are_refused(levels):
    with pytest.raises(ValueError, match="pyramid must be positive numbers"):
        pyramid_cells(BlockGrid((8, 8), (4, 4), (2, 2)), levels, "official")
