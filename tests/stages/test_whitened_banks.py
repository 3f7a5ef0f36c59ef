"""Drawn patches and rotated components, against what defines them."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from patch_sources import source_of

from rescnet.config.banks import NotEnoughFiltersError
from rescnet.stages.filters import BankOptions, find_bank
from rescnet.stages.filters.sampling import sample_patches


def learn(name, source, count, seed=0, **options):
    return find_bank(name)(source, count, torch.Generator().manual_seed(seed), BankOptions(**options))


@pytest.fixture(scope="module")
def source(blobs):
    return source_of(*blobs)


@pytest.fixture(scope="module")
def moments(blobs):
    images = blobs[0].astype(np.float64)
    patches = np.array(naive.patches((images - images.min()) / (images.max() - images.min()), 3)).reshape(-1, 27)
    return patches.mean(0), naive.covariance(patches)


@pytest.mark.parametrize("ridge", [0.0, 0.1, 3.0])
def test_a_patch_filter_is_a_drawn_patch_whitened_twice(source, moments, ridge):
    mean, covariance = moments
    found = learn("patches", source, 5, patch_ridge=ridge, pca_bias="mean")
    drawn = sample_patches(source, torch.Generator().manual_seed(0), 5).numpy()
    epsilon = ridge * np.trace(covariance) / 27
    for patch, weights, bias in zip(drawn, found.weights.numpy(), found.bias.numpy(), strict=True):
        expected = np.linalg.inv(covariance + epsilon * np.eye(27)) @ (patch - mean)
        expected /= np.linalg.norm(expected)
        np.testing.assert_allclose(weights, expected, atol=1e-7)
        assert bias == pytest.approx(-expected @ mean, abs=1e-7)


def test_rotated_components_span_what_principal_components_span(source):
    components = learn("pca", source, 6).weights
    found = learn("rotated-pca", source, 6).weights
    outside = found - found @ components.T @ components
    assert float(outside.abs().max()) < 1e-10
    assert int(torch.linalg.matrix_rank(found)) == 6


def test_without_norms_rotated_components_are_uncorrelated_and_alike(source, moments):
    """Undo the unit norm by the whitening's own: all responses then have the same variance, and no covariance."""
    _, covariance = moments
    found = learn("rotated-pca", source, 6, patch_ridge=0.0).weights.numpy()
    responses = found @ covariance @ found.T
    deviations = np.sqrt(np.diag(responses))
    np.testing.assert_allclose(responses / np.outer(deviations, deviations), np.eye(6), atol=1e-8)


@pytest.mark.parametrize("name", ["patches", "rotated-pca"])
def test_the_seed_decides_and_equal_patches_do_no_harm(source, name):
    first = learn(name, source, 4)
    assert torch.equal(first.weights, learn(name, source, 4).weights)
    assert not torch.allclose(first.weights, learn(name, source, 4, seed=1).weights, atol=0.1)
    assert bool((first.bias == 0).all())
    flat = learn(name, source_of(torch.ones(8, 1, 6, 6), torch.arange(8) % 2), 3, patch_ridge=0.0, pca_bias="mean")
    assert bool(flat.weights.isfinite().all() and flat.bias.isfinite().all())


def test_patches_less_their_own_means_have_filters_without_a_constant(blobs):
    found = learn("patches", source_of(*blobs, centring="each-patch"), 5).weights.view(5, 3, 9)
    assert float(found.sum(2).abs().max()) < 1e-6


def test_more_rotated_components_than_there_are_is_refused(source):
    with pytest.raises(NotEnoughFiltersError, match="28 rotated PCA filters were asked of patches with 27 numbers"):
        learn("rotated-pca", source, 28)
