"""Sketches of features: linear, and with the distances of the standardised features on average."""

from __future__ import annotations

import pytest
import torch

from rescnet import Config
from rescnet.numerics.sketch import LEAST, TOTAL, sketch, sketch_size, sketch_weights


def weights_of(features, seed=0):
    return sketch_weights(features.var(0, correction=0), torch.zeros(features.shape[1]), seed)


def test_a_sketch_is_a_sum_of_signed_standardised_features(generator):
    """Also with a number of features that is no multiple of the size."""
    features = torch.randn(5, 23, generator=generator, dtype=torch.float64) * torch.arange(1, 24)
    weights, wanted = weights_of(features), torch.zeros(5, 4, dtype=torch.float64)
    torch.testing.assert_close(weights.abs() * features.std(0, correction=0) * 23**0.5, torch.ones(23).double())
    for j in range(23):
        wanted[:, j % 4] += weights[j] * features[:, j]
    torch.testing.assert_close(sketch(features, weights, 4), wanted)
    single = sketch(features, weights.float(), 4)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), wanted, rtol=0, atol=1e-5)


def test_distances_are_kept_on_average_over_signs(generator):
    features = torch.randn(6, 400, generator=generator, dtype=torch.float64) * torch.rand(400, generator=generator)
    wanted = torch.pdist((features - features.mean(0)) / features.std(0, correction=0)) ** 2 / 400
    found = torch.stack([torch.pdist(sketch(features, weights_of(features, seed), 32)) ** 2 for seed in range(400)])
    torch.testing.assert_close(found.mean(0), wanted, rtol=0.05, atol=0)
    assert bool((found.std(0) / wanted < 0.4).all())  # √(2/32) is 0.25


def test_a_feature_that_does_not_vary_has_no_weight():
    variances = torch.tensor([1.0, 0.0, 1e-3, 4.0])
    weights = sketch_weights(variances, torch.tensor([0.0, 0.0, 1e-2, 0.0]), 0)
    torch.testing.assert_close(weights.abs(), torch.tensor([0.5, 0.0, 0.0, 0.25]))
    assert torch.equal(sketch_weights(variances, torch.zeros(4), 3), sketch_weights(variances, torch.zeros(4), 3))


@pytest.mark.parametrize(("layers", "filters"), [(1, 8), (25, 60), (2000, 60)])
def test_the_size_of_a_sketch(layers, filters):
    config = Config("digits", layers=layers, filters=filters).complete()
    size, features = sketch_size(config, (8, 8)), config.features((8, 8))
    assert 1 <= size <= features
    assert size in (features, TOTAL // layers, LEAST)
