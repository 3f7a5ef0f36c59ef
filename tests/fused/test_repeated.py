"""Kernels return the same bits each time: a race shows as another result in a few of many repeats.

Triton's interpreter has no races, so this needs a GPU.
"""

from __future__ import annotations

import pytest
import torch

REPEATS = 50

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="races need a GPU")


def assert_same_bits(function):
    first = function().clone()
    for _ in range(REPEATS):
        assert torch.equal(function(), first)


@pytest.mark.parametrize(
    ("preset", "side"),
    [("cifar10", 32), ("cifar100", 32), ("tiny-imagenet", 64), ("tiny-imagenet-best", 64), ("cifar10-best", 32)],
)
def test_features(preset, side):
    """Strips of several products at 64×64 once differed in one program of 10,000."""
    from rescnet import Config
    from rescnet.fused import logs_for, pool_maps

    config = Config(preset).complete((3, side, side), 10)
    coarse = torch.randn(400, config.filters, side // 4, side // 4, device="cuda")
    maps = torch.nn.functional.interpolate(coarse, scale_factor=4, mode="bilinear")
    maps = (maps + 0.2 * torch.randn_like(maps)).half()

    def features():
        pooled = pool_maps(maps, config.grids((side, side)), config.keeps_diagonal, config.pooling, config.rectifier)
        return logs_for(pooled, config.pooled_maps)(pooled, config.pooled_maps) if config.matrix_log else pooled

    assert_same_bits(features)


@pytest.mark.parametrize("side", [28, 64])
def test_convolution_and_patch_sums(side):
    from rescnet.fused.convolution import FusedConvolution
    from rescnet.fused.half_precision import FoldedScale
    from rescnet.fused.patch_sums import PatchSums

    device = torch.device("cuda")
    maps = torch.randn(400, side, side, 40, device=device).half().permute(0, 3, 1, 2)
    images = torch.randint(0, 256, (400, 3, side, side), device=device, dtype=torch.uint8)
    folded = FoldedScale.none(43, device), torch.randn(40, 43, 3, 3, device=device) / 20
    convolution = FusedConvolution(*folded, torch.zeros(40, device=device), FoldedScale.none(3, device))
    assert_same_bits(lambda: convolution(maps, images)[0])
    x = torch.randn(400, side, side, 48, device=device).half()

    def outer():
        sums = PatchSums(47)
        sums.add(x)
        return sums.moments().outer

    assert_same_bits(outer)


def test_products_scatter_and_sketches():
    from rescnet.fused.feature_sums import FusedMoments, add_column_sums_, fused_sketch
    from rescnet.fused.symmetric_product import symmetric_product

    features = torch.randn(500, 8192, device="cuda").half()
    row, square = features[0].float(), torch.randn(8192, 8192, device="cuda")
    sums = FusedMoments.zeros(row, 3)
    sums.gram, sums.count = square, 500
    x = torch.randn(8192, 16, device="cuda")
    assert_same_bits(lambda: symmetric_product(square, x))
    assert_same_bits(lambda: sums.scaled_scatter(row).tril())
    assert_same_bits(lambda: sums.shifted(features))
    assert_same_bits(lambda: fused_sketch(features, row, 1000))

    def column_sums():
        found = torch.zeros(2, 8192, dtype=torch.float64, device="cuda")
        add_column_sums_(found, features, row)
        return found

    assert_same_bits(column_sums)
