"""The Gram matrix in every product type against float64, at the conditioning real features have."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits

from rescnet import ComputeOptions, make_config
from rescnet.network.device import choose_precision
from rescnet.stages.discriminant import factorise, one_vs_rest_lda
from rescnet.stages.mixed_precision import CPU_PANEL
from rescnet.stages.moments import Moments
from rescnet.training.trainer import Trainer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(scope="module")
def digits():
    bunch = load_digits()
    return bunch.images[:, None].astype("float32"), bunch.target


def layer_features(digits):
    """The second-order features of a first layer on the digits, as training sees them, and their classes."""
    images, labels = digits
    trainer = Trainer(images[:600], labels[:600], make_config("digits"), None, None, ComputeOptions(device="cpu"))
    trainer.add_layer()
    return trainer.network.features(trainer.training.maps.whole()), trainer.training.labels


def solved(features, labels, products, dtype, ridge=0.1):
    features, labels = features.to(DEVICE), labels.to(DEVICE)
    targets = torch.nn.functional.one_hot(labels, 10).to(dtype)
    moments = Moments.zeros(features[:50].to(dtype).mean(0).half().to(dtype), 10, products)
    for part in (slice(0, 250), slice(250, None)):
        moments.add(features[part].half() if products == "auto" else features[part].to(dtype), targets[part])
    head = one_vs_rest_lda(factorise(moments, ridge), moments)
    return moments, head.scores(features.to(dtype))


@pytest.mark.parametrize(("products", "bound"), [("auto", 2e-3), ("half", 2e-3), ("tf32", 2e-3), ("float32", 1e-4)])
def test_gram_and_scores_against_float64(products, bound, digits):
    features, labels = layer_features(digits)
    exact_moments, exact_scores = solved(features, labels, "float32", torch.float64)
    moments, scores = solved(features, labels, products, torch.float32)
    spectrum = torch.linalg.eigvalsh(exact_moments.scatter())
    assert spectrum[-1] > 1e4 * spectrum[len(spectrum) // 2].clamp_min(1e-12), "features are not ill-conditioned"
    lower = moments.gram.double().tril() - exact_moments.gram.tril()
    assert float(lower.norm() / exact_moments.gram.tril().norm()) < bound
    assert float((scores.double() - exact_scores).norm() / exact_scores.norm()) < 10 * bound
    agreement = (scores.argmax(1) == exact_scores.argmax(1)).double().mean()
    assert float(agreement) > 0.995


def test_float64_takes_no_coarser_products():
    with pytest.raises(ValueError, match="gram 'tf32' is less than dtype float64"):
        choose_precision(ComputeOptions(dtype="float64", gram="tf32"), torch.device("cpu"))


@pytest.mark.parametrize("gram", ["half", "tf32", "float32"])
def test_training_follows_the_option(gram, digits):
    images, labels = digits
    compute = ComputeOptions(device="cpu", gram=gram)
    trainer = Trainer(images[:300], labels[:300], make_config("digits"), None, None, compute)
    assert trainer.add_layer().train_accuracy > 0.99


def test_a_large_gram_is_right_in_its_lower_triangle(generator):
    """Large enough for several panels: the upper triangle is not computed, and nobody reads it."""
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
