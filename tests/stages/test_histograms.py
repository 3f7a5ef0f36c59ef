"""The histogram path against loops that read like PCANet's sentences."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from scipy.stats import rankdata

from rescnet.config.geometry import BlockGrid, pyramid_cells
from rescnet.stages.histograms import binary_codes, block_histograms, histogram_features, normalise, tied_ranks


@pytest.fixture
def maps(generator):
    return torch.randn(3, 6, 11, 9, generator=generator, dtype=torch.float64)


GRID = BlockGrid((11, 9), (4, 3), (2, 2))


@pytest.mark.parametrize("bits", [1, 2, 3, 6])
def test_codes_and_block_histograms_are_the_loops(maps, bits):
    expected = naive.code_histograms(maps.numpy(), bits, GRID.block, GRID.stride)
    codes = binary_codes(maps, bits)
    assert codes.shape == (3, 6 // bits, 11, 9)
    assert int(codes.max()) < 2**bits
    np.testing.assert_array_equal(block_histograms(codes, GRID, 2**bits).numpy(), expected)


def test_the_first_map_is_the_highest_bit():
    maps = torch.tensor([1.0, -1.0, 1.0]).view(1, 3, 1, 1)
    assert int(binary_codes(maps, 3)) == 0b101


def test_what_is_only_rounding_counts_as_zero():
    maps = torch.tensor([1e-7, 0.0, -1.0, 1e-3]).view(1, 4, 1, 1)
    assert int(binary_codes(maps, 4)) == 0b0001


@pytest.mark.parametrize("reduction", ["max", "mean"])
def test_the_pyramid_reduces_histograms_of_blocks_bin_by_bin(maps, reduction):
    levels, grid = (2, 1), BlockGrid((11, 9), (3, 3), (2, 2))
    cells = pyramid_cells(grid, levels, "official")
    found = histogram_features(maps, 2, grid, cells, reduction, "none").numpy()
    blocks = naive.code_histograms(maps.numpy(), 2, grid.block, grid.stride)  # (n, groups, R, C, bins)
    for group in range(3):
        expected = naive.pyramid_official(blocks[:, group], (11, 9), grid.block, grid.stride, levels, reduction)
        np.testing.assert_allclose(found.reshape(3, 3, -1)[:, group], expected, rtol=1e-6)


def test_without_a_pyramid_every_block_is_kept(maps):
    found = histogram_features(maps, 3, GRID, None, "max", "none")
    assert found.shape == (3, 2 * 4 * 4 * 8)
    np.testing.assert_array_equal(found, block_histograms(binary_codes(maps, 3), GRID, 8).flatten(1))


def test_normalisations(maps):
    counts = histogram_features(maps, 3, GRID, None, "max", "none")

    def rows(how):
        return normalise(counts, how, GRID, 8).numpy()

    np.testing.assert_allclose(rows("block").reshape(3, 2, 16, 8).sum(-1), 8, rtol=1e-6)
    unit = counts.numpy() / np.linalg.norm(counts.numpy(), axis=1, keepdims=True)
    np.testing.assert_allclose(rows("l2"), unit, rtol=1e-5)
    roots = np.sqrt(counts.numpy())
    np.testing.assert_allclose(rows("sqrt"), roots / np.linalg.norm(roots, axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rows("tied-rank"), axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 0.3])  # whole numbers, and others
def test_tied_ranks_are_scipys_among_the_counts_above_zero(maps, scale):
    counts = histogram_features(maps, 3, GRID, None, "max", "none") * scale
    found = tied_ranks(counts).numpy()
    for row, ranks in zip(counts.numpy(), found, strict=True):
        assert (ranks[row == 0] == 0).all()
        np.testing.assert_allclose(ranks[row > 0], rankdata(row[row > 0]))
