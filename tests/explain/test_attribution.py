"""Shares of pixels, against the features that they add up to, and against a block computed by hand."""

from __future__ import annotations

import pytest
import torch

from rescnet.config.geometry import BlockGrid, Cell
from rescnet.config.network import NetworkConfig
from rescnet.explain.attribution import pixel_shares
from rescnet.network.stack import LayerStack


@pytest.mark.parametrize(
    "options",
    [{"pooling": "max"}, {"pooling": "mean"}, {"pooling": "mean", "matrix_log": True}, {"pyramid_bins": "adaptive"}],
    ids=["max", "mean", "roots", "adaptive"],
)
def test_shares_add_up_to_linear_functions_of_the_features(options, generator):
    config = NetworkConfig(filters=5, block_sizes=(4, 6), block_stride=2, pyramid=(2, 1), **options)
    maps = torch.randn(1, 5, 12, 14, generator=generator, dtype=torch.float64).relu()
    maps[0, 1] = 0  # flat
    features = LayerStack(config, (1, 12, 14), 3).features(maps)
    weights = torch.randn(features.shape[1], 3, generator=generator, dtype=torch.float64)

    found = pixel_shares(maps[0], config.grids((12, 14)), weights, config.pooling, config.matrix_log)

    assert found.shape == (3, 12, 14)
    torch.testing.assert_close(found.sum((1, 2)), (features @ weights)[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reduction", ["max", "mean"])
def test_each_pixel_has_the_product_of_its_z_scores(reduction, generator):
    maps = torch.rand(2, 4, 8, generator=generator, dtype=torch.float64)
    grid = BlockGrid((4, 8), (4, 4), (4, 4))  # two blocks side by side
    found = pixel_shares(
        maps, [(grid, [Cell(0, 1, 0, 2)])], torch.ones(1, 1, dtype=torch.float64), reduction, logs=False
    )

    blocks = [maps[:, :, :4], maps[:, :, 4:]]
    z = [(b - b.mean((1, 2), keepdim=True)) / b.std((1, 2), correction=0, keepdim=True) for b in blocks]
    products = [(each[0] * each[1]) / 16 for each in z]
    kept = [1.0, 1.0] if reduction == "mean" else [float(p.sum() == max(q.sum() for q in products)) for p in products]
    share = 0.5 if reduction == "mean" else 1.0
    torch.testing.assert_close(found[0], torch.cat([share * k * p for k, p in zip(kept, products, strict=True)], dim=1))
