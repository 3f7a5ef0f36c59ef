"""Algorithm 1 on one page: the trainer learns the same network, to rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from digits import IMAGES, LABELS
from gratings import gratings
from train_network import train_network

from rescnet import ComputeOptions, Config, ConfigError, NetworkConfig, algorithm

FLOAT64 = ComputeOptions(device="cpu", dtype="float64", precision="exact")
SMALL = {"layers": 4, "filters": 6, "block_sizes": (6,), "block_stride": 2, "pyramid": (2, 1)}
COLOUR = SMALL | {"stop_at_zero_error": False}

pytestmark = pytest.mark.usefixtures("one_cpu")


def agree(found, wanted):
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-8, atol=1e-8 * float(wanted.abs().max()))


def compare(images, labels, config):
    """Train the first images both ways, and predict the rest; return the layers and predicted classes."""
    n = 3 * len(images) // 4
    new = images[n:]
    network, _ = train_network(images[:n], labels[:n], config, compute=FLOAT64)
    layers, output = algorithm.train(torch.as_tensor(images[:n]), torch.as_tensor(labels[:n]), config)
    assert len(layers) == len(network.layers)
    for one, learned in zip(layers, network.layers, strict=True):
        agree(one.W, learned.weights)
        agree(one.B, learned.bias)
        agree(one.LDA.weights, learned.head.weights)
        agree(one.LDA.bias, learned.head.bias)
        assert torch.equal(one.LDA.present, learned.head.present)
        assert (one.α, one.share) == (learned.rate, learned.positive_share)
    agree(output, network.outputs(images[:n]))
    predicted = algorithm.predict(torch.as_tensor(new), layers, config)
    agree(predicted, network.outputs(new))
    return layers, predicted.argmax(1).numpy()


@pytest.mark.slow
def test_digits_with_fewer_images_than_features():
    layers, predicted = compare(IMAGES[:400], LABELS[:400], Config("digits", layers=6).complete())
    assert min(layer.share for layer in layers) < 0.9  # both signs were learned
    assert np.mean(predicted == LABELS[300:400]) > 0.9


@pytest.mark.parametrize(
    ("preset", "options"),
    [
        ("cifar10", {}),
        ("cifar100", {"rate_drop_every": 1, "bank": "2 pca + 1 lda"}),
        ("mnist", {"softmax_scale": 0.1, "first_filter_size": 5}),
        ("", {"scaling": "channel", "block_sizes": (6, 4), "pooling": "mean", "seed": 3}),
    ],
)
def test_small_networks_on_colour_images(preset, options):
    options = COLOUR | options
    config = Config(preset, **options).complete() if preset else NetworkConfig(**options)
    layers, predicted = compare(*gratings(), config)
    assert len(layers) == 4
    assert np.mean(predicted == gratings()[1][180:]) > 0.5


def test_it_stops_at_zero_training_error():
    layers, _ = compare(*gratings(), NetworkConfig(**(SMALL | {"layers": 30, "ridge": 1e-3})))
    assert len(layers) < 30


def test_what_goes_beyond_the_paper_is_refused():
    config = Config("digits", readout="kernel").complete()
    with pytest.raises(ConfigError, match="readout must be 'heads', got 'kernel'"):
        algorithm.train(torch.as_tensor(IMAGES), torch.as_tensor(LABELS), config)
