"""Gram matrices of half-precision and float32 features against float64, at the conditioning of real features."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits

from rescnet import ComputeOptions, make_config, train
from rescnet.stages.discriminant import factorise, one_vs_rest_lda
from rescnet.stages.mixed_precision import CPU_PANEL
from rescnet.stages.moments import Moments

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(scope="module")
def layer_features():
    """The second-order features of a first layer on the digits, shape (600, D), and their classes."""
    bunch = load_digits()
    images, labels = bunch.images[:600, None].astype("float32"), bunch.target[:600]
    network, _ = train(images, labels, make_config("digits", layers=1), compute=ComputeOptions(device="cpu"))
    stack = network.stack
    return stack.features(stack.maps(stack.layers[0], None, torch.as_tensor(images))), torch.as_tensor(labels)


def solved(features, labels, feature_type, sum_type, ridge=0.1):
    """Return the moments of features in one type, summed in another, and the scores of an LDA head."""
    features, labels = features.to(DEVICE), labels.to(DEVICE)
    targets = torch.nn.functional.one_hot(labels, 10).to(sum_type)
    moments = Moments.zeros(features[:50].to(sum_type).mean(0).half().to(sum_type), 10)
    for part in (slice(0, 250), slice(250, None)):
        moments.add(features[part].to(feature_type), targets[part])
    head = one_vs_rest_lda(factorise(moments, ridge), moments)
    return moments, head.scores(features.to(sum_type))


@pytest.mark.slow
@pytest.mark.parametrize(("feature_type", "bound"), [(torch.float16, 2e-3), (torch.float32, 1e-4)])
def test_gram_and_scores_against_float64(feature_type, bound, layer_features):
    exact_moments, exact_scores = solved(*layer_features, torch.float64, torch.float64)
    moments, scores = solved(*layer_features, feature_type, torch.float32)
    spectrum = torch.linalg.eigvalsh(exact_moments.scatter())
    assert spectrum[-1] > 1e4 * spectrum[len(spectrum) // 2].clamp_min(1e-12), "features are not ill-conditioned"
    lower = moments.gram.double().tril() - exact_moments.gram.tril()
    assert float(lower.norm() / exact_moments.gram.tril().norm()) < bound
    assert float((scores.double() - exact_scores).norm() / exact_scores.norm()) < 10 * bound
    agreement = (scores.argmax(1) == exact_scores.argmax(1)).double().mean()
    assert float(agreement) > 0.995


def test_float64_sums_are_exact(layer_features):
    """Up to the rounding of float64 itself, whatever the chunks."""
    features, labels = layer_features
    moments, _ = solved(features, labels, torch.float64, torch.float64)
    shifted = features.double().to(DEVICE) - moments.shift
    torch.testing.assert_close(moments.gram.tril(), (shifted.T @ shifted).tril(), rtol=1e-12, atol=1e-12)


def test_a_large_gram_is_right_in_its_lower_triangle(generator):
    """Large enough for several panels: the upper triangle is not computed and never read."""
    features = torch.randn(40, 2 * CPU_PANEL + 100, generator=generator, dtype=torch.float64)
    targets = torch.nn.functional.one_hot(torch.arange(40) % 4).double()
    moments = Moments.zeros(features[:5].mean(0), 4)
    moments.add(features[:15], targets[:15])
    moments.add(features[15:], targets[15:])
    expected = torch.cov(features.T, correction=0)
    torch.testing.assert_close(moments.scatter().tril(), expected.tril())
    assert float((moments.scatter() - expected).abs().max()) > 0.01
    head = one_vs_rest_lda(factorise(moments, 0.1), moments)
    moments.gram += moments.gram.tril(-1).T - moments.gram.triu(1)
    torch.testing.assert_close(head.weights, one_vs_rest_lda(factorise(moments, 0.1), moments).weights)
