"""Filters that are whitened patches, against their formula."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from patch_sources import source_of

from rescnet.stages.filters import BankOptions, find_bank
from rescnet.stages.filters.bank import sample_patches


def learn(source, count, seed=0, **options):
    return find_bank("patches")(source, count, torch.Generator().manual_seed(seed), BankOptions(**options))


@pytest.fixture(scope="module")
def source(blobs):
    return source_of(*blobs)


@pytest.fixture(scope="module")
def moments(blobs):
    images = blobs[0].astype(np.float64)
    patches = np.array(naive.patches((images - images.min()) / (images.max() - images.min()), 3)).reshape(-1, 27)
    return patches.mean(0), naive.covariance(patches)


@pytest.mark.parametrize("ridge", [0.0, 0.1, 3.0])
def test_a_patch_filter_is_a_drawn_patch_whitened_twice(source, moments, ridge, monkeypatch):
    monkeypatch.setattr("rescnet.stages.filters.unsupervised.RIDGE", ridge)
    mean, covariance = moments
    found = learn(source, 5, pca_bias="mean")
    drawn = sample_patches(source, torch.Generator().manual_seed(0), 5).numpy()
    epsilon = ridge * np.trace(covariance) / 27
    for patch, weights, bias in zip(drawn, found.weights.numpy(), found.bias.numpy(), strict=True):
        expected = np.linalg.inv(covariance + epsilon * np.eye(27)) @ (patch - mean)
        expected /= np.linalg.norm(expected)
        np.testing.assert_allclose(weights, expected, atol=1e-7)
        assert bias == pytest.approx(-expected @ mean, abs=1e-7)


def test_the_seed_decides(source):
    first = learn(source, 4)
    assert torch.equal(first.weights, learn(source, 4).weights)
    assert not torch.allclose(first.weights, learn(source, 4, seed=1).weights, atol=0.1)
    assert bool((first.bias == 0).all())


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_equal_patches_give_finite_filters(ridge, monkeypatch):
    monkeypatch.setattr("rescnet.stages.filters.unsupervised.RIDGE", ridge)
    flat = learn(source_of(torch.ones(8, 1, 6, 6), torch.arange(8) % 2), 3, pca_bias="mean")
    assert bool(flat.weights.isfinite().all() and flat.bias.isfinite().all())
