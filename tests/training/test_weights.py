"""Weights of training images: integer weights equal repeated images, and bad ones are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from train_network import train_network

from rescnet import ComputeOptions, NetworkConfig
from rescnet.training.data import TrainingData

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {
    "filters": 6, "layers": 2, "block_sizes": [6], "block_stride": 3, "pyramid": (2, 1), "ridge": 0.3,
    "stop_at_zero_error": False, "bank": "pca",
}  # fmt: skip
WEIGHTS = np.arange(240) % 7 % 4  # 0 to 3, of all classes
DOUBLE = ComputeOptions(device="cpu", dtype="float64")


def outputs(images, labels, seen, weights=None, compute=DOUBLE, **options):
    network, _ = train_network(images, labels, NetworkConfig(**(SMALL | options)), weights=weights, compute=compute)
    return network.outputs(seen)


# There are 75 features: 40 images are solved in the dual form, 90 by the Gram matrix.
@pytest.mark.parametrize("count", [40, 90])
@pytest.mark.parametrize(
    "options",
    [
        {"head": "lda", "layers": 3},  # the third has residuals of both signs
        {"head": "multiclass-lda", "pca_bias": "mean"},
        {"head": "ridge", "learning_rate": 0.5},
        {"bank": "lda", "stack_depth": 2, "grey_stack_every": 2},
        {"bank": "orthogonal-subspace"},
        {"bank": "dct", "augment": "flip"},
        {"bank": "pca + stacked-lda"},  # even its draws repeat, if copies of an image are neighbours
    ],
    ids=lambda options: " ".join(map(str, options.values())),
)
def test_integer_weights_are_repeated_images(options, count, blobs):
    images, labels, weights = blobs[0][:count], blobs[1][:count], WEIGHTS[:count]
    seen = blobs[0][200:]
    weighted = outputs(images, labels, seen, weights, **options)
    repeated = outputs(images.repeat(weights, 0), labels.repeat(weights), seen, **options)
    torch.testing.assert_close(weighted, repeated, rtol=0, atol=1e-8)
    assert float((weighted - outputs(images, labels, seen, **options)).abs().max()) > 1e-3


def test_weights_in_half_precision(blobs):
    """On a GPU if there is one: the second layer has enough channels for the kernel that sums patches."""
    images, labels = blobs[0][:60], blobs[1][:60]
    half = ComputeOptions(precision="balanced")
    found, exact, plain = (
        outputs(images, labels, blobs[0][200:], weights, compute, filters=16).double().cpu()
        for weights, compute in ((WEIGHTS[:60], half), (WEIGHTS[:60], DOUBLE), (None, DOUBLE))
    )
    assert float((found - exact).norm()) < 0.1 * float((plain - exact).norm())


@pytest.mark.parametrize("readout", ["heads", "kernel"])
def test_the_scale_of_weights_does_not_matter_and_ones_are_none(readout, blobs):
    images, labels, how = blobs[0][:60], blobs[1][:60], {"head": "ridge", "pooling": "mean", "readout": readout}
    weights = np.linspace(0.5, 2, 60)
    both = [outputs(images, labels, images, factor * weights, **how) for factor in (1, 1e-6)]
    torch.testing.assert_close(*both, rtol=0, atol=1e-8)
    ones = outputs(images, labels, images, np.ones(60), **how)
    assert torch.equal(ones, outputs(images, labels, images, **how))


@pytest.mark.parametrize("head", ["lda", "multiclass-lda"])
def test_a_class_may_weigh_less_than_one_image(head, blobs):
    images, labels = blobs[0][:12], blobs[1][:12] % 2
    weights = np.where(labels == 0, 1, 100)  # six images of 1/50 of the mean weight
    weighted = outputs(images, labels, images, weights, head=head)
    repeated = outputs(images.repeat(weights, 0), labels.repeat(weights), images, head=head)
    torch.testing.assert_close(weighted, repeated, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(59), r"weights must have shape \(60,\), one per image, got \(59,\)\.$"),
        (np.ones((60, 1)), r"weights must have shape \(60,\), one per image, got \(60, 1\)\.$"),
        (np.full(60, -1), r"weights must be finite and at least 0, got -1\.$"),
        (np.full(60, np.nan), r"weights must be finite and at least 0, got nan\.$"),
        (np.full(60, np.inf), r"weights must be finite and at least 0, got inf\.$"),
        (np.zeros(60), r"weights must not all be zero\.$"),
        (np.arange(60) % 6 == 0, r"labels of weighted images must have at least two classes, got only 0\.$"),
        (["heavy"] * 60, r"weights must be numbers, got list\.$"),
    ],
)
def test_bad_weights_are_refused_in_one_sentence(weights, message, blobs):
    with pytest.raises(ValueError, match=message):
        TrainingData.of(blobs[0][:60], blobs[1][:60], weights=weights)


def test_images_of_weight_zero_are_left_out(blobs):
    data = TrainingData.of(*blobs, weights=WEIGHTS)
    assert len(data.images) == len(data.labels) == int((WEIGHTS > 0).sum())
    assert data.weights is not None and data.weights.tolist() == WEIGHTS[WEIGHTS > 0].tolist()
