"""The fused kernel against the stage it stands in for, in float64 on random input.

Without a GPU the kernel runs in Triton's interpreter, on small batches.
"""

from __future__ import annotations

import pytest
import torch
from fused.on_device import DEVICE

from rescnet import Config
from rescnet.config.geometry import BlockGrid, pyramid_cells
from rescnet.fused.pooling import _tables, fused_pool
from rescnet.numerics.linear_algebra import with_zeros
from rescnet.stages.pooling import pool_features, pooling_input

BATCH = 64 if DEVICE == "cuda" else 1


def random_maps(n, d, size, dtype):
    """Maps with a mean, of different strength in each channel, some pixels below zero."""
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(n, d, *size, generator=generator) + 0.5 * torch.randn(1, d, 1, 1, generator=generator)
    return (maps * torch.rand(1, d, 1, 1, generator=generator).add(0.1)).to(DEVICE, dtype)


def check(maps, pyramids, bound, rectifier="relu", **options):
    seen = pooling_input(maps.double(), rectifier)
    exact = pool_features(seen, pyramids, **options)
    found = fused_pool(maps, pyramids, **options, rectifier=rectifier, out_dtype=torch.float32)
    assert found.shape == exact.shape
    assert bool(found.isfinite().all())
    error = float((found.double() - exact).norm() / exact.norm())
    assert error < bound, error


@pytest.mark.slow
@pytest.mark.parametrize(("rectifier", "reduction"), [("relu", "max"), ("both", "mean")])
@pytest.mark.parametrize(
    ("size", "block", "stride", "levels"),
    [
        ((12, 12), (6, 6), (1, 1), (4, 2, 1)),
        ((12, 12), (6, 6), (2, 2), (2, 1)),
        ((13, 11), (4, 3), (4, 3), (3, 1)),
        ((10, 12), (3, 3), (4, 4), (2,)),
        ((9, 14), (4, 6), (3, 2), (2, 1)),
        ((6, 70), (3, 5), (3, 5), (2, 1)),
    ],
)
@pytest.mark.parametrize("cells", ["official", "adaptive"])
def test_kernel_equals_stage_at_any_geometry(size, block, stride, levels, cells, rectifier, reduction):
    grid = BlockGrid(size, block, stride)
    maps = random_maps(BATCH, 5, size, torch.float32)
    # Blocks that vary hardly more or less than a flat one would differ by rounding.
    maps[maps.abs() < 0.1 * maps.std((2, 3), keepdim=True)] = 0
    other = BlockGrid(size, (3, 2), (2, 2))
    pyramids = [(each, pyramid_cells(each, levels, cells)) for each in (grid, other)]
    check(maps, pyramids, 2e-4, rectifier, reduction=reduction, diagonal=rectifier == "both")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32] if DEVICE == "cuda" else [torch.float16])
@pytest.mark.parametrize(
    ("preset", "size"), [("mnist", 28), ("cifar10", 32), ("tiny-imagenet", 64), ("cifar10-best", 32)]
)
def test_kernel_equals_stage_at_the_presets(preset, size, dtype):
    config = Config(preset).complete()
    maps = random_maps(BATCH, config.filters, (size, size), dtype)
    bound = 2e-4 if dtype == torch.float32 else 2e-3
    options = {"diagonal": config.keeps_diagonal, "reduction": config.pooling}
    check(maps, config.grids((size, size)), bound, config.rectifier, **options)


def test_zeros_follow_each_row_in_half_precision():
    grid = BlockGrid((8, 8), (4, 4), (2, 2))
    found = fused_pool(random_maps(2, 5, (8, 8), torch.float16), [(grid, pyramid_cells(grid, (2, 1), "official"))])
    whole = with_zeros(found, 128)
    assert whole.data_ptr() == found.data_ptr()
    assert bool((whole[:, :75] == found).all())
    assert bool((whole[:, 75:] == 0).all())


def test_no_variance_gives_zero_not_nan():
    maps = random_maps(2, 6, (12, 12), torch.float32)
    maps[:, 2] = 3.0
    maps[0, :, :6, :6] = 1.0
    grid = BlockGrid((12, 12), (6, 6), (6, 6))
    found = fused_pool(maps, [(grid, pyramid_cells(grid, (2, 1), "official"))], diagonal=True)
    assert bool(found.isfinite().all())
    assert bool((found.view(2, 5, 21)[0, 0] == 0).all())


def test_atoms_are_the_coarsest_common_division():
    grid = BlockGrid((32, 32), (16, 16), (1, 1))
    official = _tables(tuple(pyramid_cells(grid, (4, 2, 1), "official")), torch.device("cpu"))
    assert official.rows.tolist() == [0, 1, 9, 17] and official.cells[-1].tolist() == [0, 3, 0, 3]
    adaptive = _tables(tuple(pyramid_cells(grid, (4, 2, 1), "adaptive")), torch.device("cpu"))
    assert adaptive.rows.tolist() == [0, 4, 5, 8, 9, 12, 13, 17]
