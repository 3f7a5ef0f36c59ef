"""Heads against scikit-learn's LDA and Ridge, and against loops."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import EmpiricalCovariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

from rescnet.numerics.linear_algebra import NotPositiveDefiniteError
from rescnet.stages.discriminant import (
    factorise,
    fit_head,
    multiclass_lda,
    normalise,
    one_vs_rest_lda,
    ridge_regression,
    sigmoid_posterior,
    softmax_posterior,
)
from rescnet.stages.moments import Moments


def sample(n=120, size=7, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.choice(classes, n - classes, p=[0.4, 0.3, 0.2, 0.1][:classes])])
    features = rng.normal(size=(n, size)) @ rng.normal(size=(size, size)) + rng.normal(size=(classes, size))[labels] + 5
    return features, labels


def moments_of(features, targets, cuts=()):
    features, targets = torch.as_tensor(features), torch.as_tensor(targets, dtype=torch.float64)
    total = Moments.zeros(features[:10].mean(0), targets.shape[1])
    for f, t in zip(torch.tensor_split(features, cuts), torch.tensor_split(targets, cuts), strict=True):
        total.add(f, t)
    return total


def one_hot(labels, classes):
    return np.eye(classes)[labels]


class PlusRidge(EmpiricalCovariance):
    """Within covariance plus γI, for scikit-learn's LDA."""

    def __init__(self, gamma):
        super().__init__()
        self.gamma = gamma

    def fit(self, X, y=None):
        super().fit(X)
        self.covariance_ = self.covariance_ + self.gamma * np.eye(X.shape[1])
        return self


@pytest.mark.parametrize("gamma", [0.0, 0.05, 3.0])
def test_one_vs_rest_agrees_with_scikit_learn(gamma):
    """On features of any scale: heads standardise them, so the ridge is in units of their variance."""
    features, labels = sample()
    moments = moments_of(features, one_hot(labels, 4))
    head = one_vs_rest_lda(factorise(moments, gamma), moments)
    scores = head.scores(torch.as_tensor(features)).numpy()
    unit = features / features.std(0)
    for c in range(4):
        judge = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=PlusRidge(gamma))
        judge.fit(unit, labels == c)
        np.testing.assert_allclose(scores[:, c], judge.decision_function(unit), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.2])
def test_multiclass_agrees_with_scikit_learn(gamma):
    features, labels = sample()
    moments = moments_of(features, one_hot(labels, 4))
    head = multiclass_lda(factorise(moments, gamma), moments)
    scores = head.scores(torch.as_tensor(features))
    unit = features / features.std(0)
    judge = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=PlusRidge(gamma)).fit(unit, labels)
    np.testing.assert_allclose(torch.softmax(scores, 1).numpy(), judge.predict_proba(unit), rtol=1e-6, atol=1e-6)


def test_multiclass_counts_images_of_no_group_as_one_more_group():
    features, labels = sample()
    moments = moments_of(features, one_hot(labels, 4)[:, :3])  # class 3 has no column
    head = multiclass_lda(factorise(moments, 0.1), moments)
    scores = head.scores(torch.as_tensor(features)).numpy()
    unit = features / features.std(0)
    judge = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=PlusRidge(0.1)).fit(unit, labels)
    expected = judge.decision_function(unit)[:, :3]
    np.testing.assert_allclose(scores - scores[:, :1], expected - expected[:, :1], rtol=1e-6, atol=1e-6)


def test_sets_of_groups_solved_together_equal_each_alone():
    features, labels = sample()
    moments = moments_of(features, one_hot(labels, 4))
    factor = factorise(moments, 0.1)
    both = multiclass_lda(factor, moments, sets=2)
    alone = [multiclass_lda(factor, moments.with_targets(part)) for part in (slice(0, 2), slice(2, 4))]
    torch.testing.assert_close(both.weights, torch.cat([head.weights for head in alone], dim=1))
    torch.testing.assert_close(both.bias, torch.cat([head.bias for head in alone]))
    assert torch.equal(both.present, torch.cat([head.present for head in alone]))


@pytest.mark.parametrize("gamma", [1e-3, 0.7])
def test_ridge_agrees_with_scikit_learn(gamma):
    features, _ = sample()
    targets = np.random.default_rng(1).normal(size=(len(features), 3))
    moments = moments_of(features, targets)
    head = ridge_regression(factorise(moments, gamma), moments)
    unit = features / features.std(0)
    expected = Ridge(alpha=gamma * len(features)).fit(unit, targets).predict(unit)
    np.testing.assert_allclose(head.scores(torch.as_tensor(features)).numpy(), expected, rtol=1e-6, atol=1e-6)


def test_both_signs_from_one_factor_match_the_loop():
    """2C groups, each against all other images, from one factorisation of standardised features."""
    features, labels = sample()
    groups = labels + 4 * (np.random.default_rng(2).random(len(labels)) < 0.5)
    moments = moments_of(features, one_hot(groups, 8))
    head = one_vs_rest_lda(factorise(moments, 0.1), moments)
    scores = head.scores(torch.as_tensor(features)).numpy()
    unit = features / features.std(0)
    for g in range(8):
        weights, bias = naive.binary_lda(unit, groups == g, 0.1)
        np.testing.assert_allclose(scores[:, g], unit @ weights + bias, rtol=1e-8, atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 120), max_size=5).map(sorted), seed=st.integers(0, 1000))
def test_chunked_and_shuffled_sums_are_the_same(cuts, seed):
    features, labels = sample()
    order = np.random.default_rng(seed).permutation(len(labels))
    whole = moments_of(features, one_hot(labels, 4))
    mixed = moments_of(features[order], one_hot(labels, 4)[order], cuts)
    np.testing.assert_allclose(mixed.scatter(), whole.scatter(), atol=1e-9)
    np.testing.assert_allclose(mixed.mean, whole.mean, atol=1e-9)
    np.testing.assert_allclose(mixed.centred_cross(), whole.centred_cross(), atol=1e-9)


def test_float32_sums_survive_large_means():
    features, labels = sample()
    far = torch.as_tensor(features + 1000).float()
    moments = Moments.zeros(far[:10].mean(0), 4)
    moments.add(far, torch.as_tensor(one_hot(labels, 4)).float())
    np.testing.assert_allclose(moments.scatter().numpy(), np.cov(features.T, bias=True), rtol=1e-3, atol=1e-3)


def test_a_constant_feature_gets_no_weight():
    features, labels = sample()
    features[:, 2] = 0.1
    moments = moments_of(features, one_hot(labels, 4))
    head, ridge = fit_head(moments, one_vs_rest_lda, 0.0)
    assert ridge == 0.0
    assert bool((head.weights[2] == 0).all())
    rest = np.delete(features, 2, axis=1)
    expected = LinearDiscriminantAnalysis(solver="lsqr").fit(rest, labels == 0).decision_function(rest)
    np.testing.assert_allclose(head.scores(torch.as_tensor(features))[:, 0].numpy(), expected, rtol=1e-6, atol=1e-6)


def test_a_failed_factorisation_is_retried_with_more_ridge():
    features, labels = sample(n=20, size=7)
    doubled = np.hstack([features, features, features])  # rank 7 of 21
    moments = moments_of(doubled, one_hot(labels, 4))
    moments.gram[0, 0] -= 40.0  # as rounding would: no longer positive definite
    with pytest.raises(NotPositiveDefiniteError):
        factorise(moments, 0.0)
    head, ridge = fit_head(moments, one_vs_rest_lda, 0.0)
    assert ridge >= 1e-6
    assert bool(head.weights.isfinite().all())


def test_more_features_than_images():
    features, labels = sample(n=30, size=7)
    wide = np.hstack([features, np.random.default_rng(0).normal(size=(30, 60))])
    moments = moments_of(wide, one_hot(labels, 4))
    head, ridge = fit_head(moments, one_vs_rest_lda, 0.1)
    assert ridge == 0.1
    weights, bias = naive.binary_lda(wide / wide.std(0), labels == 0, 0.1)
    np.testing.assert_allclose(
        head.scores(torch.as_tensor(wide))[:, 0].numpy(), wide / wide.std(0) @ weights + bias, rtol=1e-7, atol=1e-7
    )


def test_nan_features_are_refused():
    features, labels = sample()
    features[3, 1] = np.nan
    moments = moments_of(features, one_hot(labels, 4))
    with pytest.raises(FloatingPointError, match="NaN or infinity"):
        fit_head(moments, one_vs_rest_lda, 0.1)


def test_groups_without_images_have_posterior_zero():
    features, labels = sample()
    moments = moments_of(features, np.hstack([one_hot(labels, 4), np.zeros((len(labels), 2))]))
    for solve in (one_vs_rest_lda, multiclass_lda):
        head, _ = fit_head(moments, solve, 0.1)
        assert head.present.tolist() == [True] * 4 + [False] * 2
        scores = head.scores(torch.as_tensor(features))
        for posterior in (sigmoid_posterior, softmax_posterior):
            values = posterior(scores, head.present, 1.0)
            assert bool((values[:, 4:] == 0).all())
            assert bool((values[:, :4] > 0).all())


def test_one_image_in_a_group_and_all_images_in_a_group():
    features, labels = sample()
    alone = np.zeros((len(labels), 2))
    alone[0, 0] = 1
    alone[:, 1] = 1
    head, _ = fit_head(moments_of(features, alone), one_vs_rest_lda, 0.1)
    scores = head.scores(torch.as_tensor(features))
    assert bool(scores.isfinite().all())
    assert int(scores[:, 0].argmax()) == 0
    assert bool((scores[:, 1] > 0).all())


def test_posteriors_match_the_formulas():
    scores = torch.tensor([[-32.0, 0.0, 16.0]], dtype=torch.float64)
    here = torch.ones(3, dtype=torch.bool)
    expected = [1 / (1 + np.exp(-x / 16)) for x in (-32, 0, 16)]
    np.testing.assert_allclose(sigmoid_posterior(scores, here, 16.0)[0], expected)
    np.testing.assert_allclose(normalise(sigmoid_posterior(scores, here, 16.0))[0], np.array(expected) / sum(expected))
    powers = np.exp(0.1 * np.array([-32.0, 0, 16]))
    np.testing.assert_allclose(softmax_posterior(scores, here, 0.1)[0], powers / powers.sum())
    assert bool((softmax_posterior(scores, ~here, 0.1) == 0).all())


def test_shares_sum_to_one_however_small_and_are_zero_where_no_group_is_present():
    scores = torch.tensor([[-30_000.0, -20_000.0, 40.0], [-30_000.0, -20_000.0, -10_000.0]])
    here = torch.tensor([True, True, False])
    found = normalise(sigmoid_posterior(scores, here))
    torch.testing.assert_close(found.sum(1), torch.ones(2))
    assert bool((found[:, 1] > found[:, 0]).all() and (found[:, 2] == 0).all())
    assert bool((normalise(sigmoid_posterior(scores, torch.zeros_like(here))) == 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sigmoid_is_never_rounded_to_zero_and_the_same_where_it_would_not_be(dtype):
    """Of classes that are all far from an image the nearest still has the largest posterior."""
    scores = torch.linspace(-30_000, 100, 3001, dtype=dtype)[None]
    here = torch.ones(3001, dtype=torch.bool)
    found = sigmoid_posterior(scores, here)
    assert bool((found > 0).all())
    assert bool((found[:, :2900].diff() > 0).all())
    plain = torch.sigmoid(scores / 16)
    near = scores >= -80 * 16
    torch.testing.assert_close(found[near], plain[near], rtol=8 * torch.finfo(dtype).eps, atol=0)
    assert float((found - plain)[~near].abs().max()) < 2e-35
