from __future__ import annotations

import numpy as np
import pytest
import torch
from train_network import train_network

from rescnet import ComputeOptions, NetworkConfig, train
from rescnet.network.history import StopReason
from rescnet.training.data import TrainingData
from rescnet.training.trainer import Trainer
from rescnet.training.workers import Workers

SMALL = {"filters": 8, "layers": 4, "block_sizes": [6], "block_stride": 2, "pyramid": (2, 1)}


def small(**options):
    return NetworkConfig(**(SMALL | options))


@pytest.fixture(scope="module")
def halves(blobs):
    images, labels = blobs
    return (images[:160], labels[:160]), (images[160:], labels[160:])


def test_it_learns(halves):
    (images, labels), test = halves
    _, history = train_network(images, labels, small(layers=6), test=test)
    assert history[-1].test_accuracy > 0.7  # six classes


def test_the_same_seed_gives_the_same_network_bit_for_bit(halves):
    (images, labels), _ = halves
    first, _ = train_network(images, labels, small(layers=2))
    again, _ = train_network(images, labels, small(layers=2))
    other, _ = train_network(images, labels, small(layers=2, seed=1))
    for a, b in zip(first.layers, again.layers, strict=True):
        assert torch.equal(a.weights, b.weights)
        assert torch.equal(a.head.weights, b.head.weights)
        assert torch.equal(a.head.bias, b.head.bias)
    assert not torch.equal(first.layers[0].weights, other.layers[0].weights)


def test_no_gradient_anywhere(halves, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a gradient was asked for")

    monkeypatch.setattr(torch.autograd, "backward", refuse)
    monkeypatch.setattr(torch.autograd, "grad", refuse)
    monkeypatch.setattr(torch.Tensor, "backward", refuse)
    modes = []
    original = Trainer._learn_filters

    def spy(self, *args):
        modes.append((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
        return original(self, *args)

    monkeypatch.setattr(Trainer, "_learn_filters", spy)
    (images, labels), _ = halves
    tensor = torch.as_tensor(images).float().requires_grad_()
    network, _ = train_network(tensor, labels, small(layers=2, stop_at_zero_error=False))
    assert modes == [(True, False)] * 2
    for layer in network.layers:
        for learned in (layer.weights, layer.bias, layer.head.weights, layer.head.bias):
            assert not learned.requires_grad
            assert learned.grad_fn is None
    assert tensor.grad is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"head": "multiclass-lda"},
        {"head": "ridge", "learning_rate": 0.3},
        {"head": "multiclass-lda", "posterior": "softmax", "softmax_scale": 0.1},
        {"posterior": "softmax", "softmax_scale": 0.5},
        {"posterior": "normalised-sigmoid", "learning_rate": 1.0},
        {"pca_signs": "drawn", "stacked_lda_signs": "both"},
        {"scaling": "channel", "pooling": "mean", "pyramid_bins": "adaptive"},
        {"bank": "pca", "pca_bias": "none", "first_filter_size": 5},
        {"stacked_lda_bias": "lda", "rate_drop": 0.1, "rate_drop_every": 1},
    ],
    ids=str,
)
def test_predictions_agree_with_the_history(options, halves):
    (images, labels), test = halves
    network, history = train_network(images, labels, small(layers=3, stop_at_zero_error=False, **options), test=test)
    assert history[-1].test_accuracy > 0.5
    outputs = network.outputs(test[0])
    assert bool(outputs.isfinite().all())
    for record in history:
        predicted = network.predict_indices(test[0], layers=record.layer)
        assert float((predicted.numpy() == test[1]).mean()) == pytest.approx(record.test_accuracy, abs=0.02)


def test_records(halves):
    (images, labels), test = halves
    _, history = train_network(images, labels, small(layers=2, stop_at_zero_error=False), validation=test, test=test)
    first, second = history
    assert (first.layer, second.layer) == (1, 2)
    assert first.positive_share == 1
    assert 0 <= second.positive_share <= 1
    assert first.validation_accuracy == first.test_accuracy
    assert first.rate == 0.4
    assert first.ridge == 0.1
    assert set(first.seconds) == {
        "scaling", "filters", "residual", "convolution", "pooling", "moments", "heads", "update"
    }  # fmt: skip
    assert all(value >= 0 for value in first.seconds.values())
    assert set(first.memory) == set(first.seconds)
    assert first.peak_memory == max(first.memory.values()) > 0


def test_it_stops_at_zero_training_error(halves):
    (images, labels), _ = halves
    _, history = train_network(images, labels, small(layers=30, ridge=1e-3))
    assert history.stopped is StopReason.ZERO_ERROR
    assert len(history) < 30
    assert [r.train_accuracy == 1 for r in history] == [False] * (len(history) - 1) + [True]


def test_it_stops_when_validation_no_longer_rises(halves):
    (images, labels), test = halves
    network, history = train_network(
        images, labels, small(layers=40, patience=2, stop_at_zero_error=False, ridge=1e-4), validation=test
    )
    assert history.stopped is StopReason.PATIENCE
    assert history.layers_since_best() == 2
    assert len(history) < 40
    assert network.used_layers == history.best_layer() == len(network.layers) - 2
    predicted = network.predict_indices(test[0]).numpy()
    np.testing.assert_array_equal(
        predicted, network.first_layers(history.best_layer()).predict_indices(test[0]).numpy()
    )
    assert np.mean(predicted == np.asarray(test[1])) == pytest.approx(history[-3].validation_accuracy)


@pytest.mark.parametrize("scale", [(1 / 255, 0.0), (1.0, -128.0), (37.0, 1000.0)])
def test_the_unit_of_pixels_does_not_matter(scale, halves):
    (images, labels), test = halves
    config, compute = small(layers=2, stop_at_zero_error=False), ComputeOptions(dtype="float64")
    plain, _ = train_network(images, labels, config, compute=compute)
    factor, offset = scale
    other, _ = train_network(images * factor + offset, labels, config, compute=compute)
    np.testing.assert_allclose(
        other.outputs(test[0] * factor + offset).numpy(), plain.outputs(test[0]).numpy(), atol=1e-6
    )


def hard_cases():
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 4
    noise = rng.integers(0, 256, (40, 3, 12, 12)).astype(np.uint8)
    levels = np.broadcast_to((40 * labels + rng.integers(0, 9, 40))[:, None, None, None], noise.shape).astype(np.uint8)
    dead_channel = noise.copy()
    dead_channel[:, 1] = 7
    some_constant = noise.copy()
    some_constant[::3] = 200
    lonely = np.where(np.arange(40) == 5, 4, labels)  # a class with one image
    return {
        "each image constant": (levels, labels),
        "all images equal": (np.full_like(noise, 9), labels),
        "constant channel": (dead_channel, labels),
        "some images constant": (some_constant, labels),
        "one sample in a class": (noise, lonely),
        "a class number without images": (noise, np.where(labels == 2, 5, labels)),
        "two images": (noise[:2], labels[:2]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", hard_cases())
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ridge": 0.0},
        {"ridge": 0.0, "head": "multiclass-lda"},
        {"head": "ridge", "ridge": 0.0},
        {"head": "multiclass-lda", "ridge": 1e-6},
        {"draw_ridge": 0.0},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::rescnet.network.inputs.InputWarning")  # of the class number without images
def test_hard_images_train_and_nothing_is_nan(name, options):
    images, labels = hard_cases()[name]
    network, history = train_network(images, labels, small(layers=3, stop_at_zero_error=False, **options))
    assert len(history) == 3
    assert bool(network.outputs(images).isfinite().all())
    for layer in network.layers:
        assert bool(layer.head.weights.isfinite().all())


def test_more_features_than_images_train_without_ridge_and_the_record_tells(halves):
    (images, labels), _ = halves
    _, history = train_network(
        images[:40], labels[:40], small(layers=2, ridge=0.0, filters=12, stop_at_zero_error=False)
    )
    assert history[0].ridge > 0


def test_nan_never_enters_the_output(halves, monkeypatch):
    (images, labels), _ = halves
    config = small()
    trainer = Trainer(config, TrainingData.of(images, labels), ComputeOptions(), Workers())
    trainer.add_layer()
    before = trainer.training.output.clone()
    monkeypatch.setattr(trainer.stack, "update", lambda layer, output, features: output * float("nan"))
    with pytest.raises(FloatingPointError, match=r"layer 2 has NaN or infinite outputs\. Raise the ridge"):
        trainer.add_layer()
    assert torch.equal(trainer.training.output, before)
    assert len(trainer.network.layers) == len(trainer.history) == 1


def test_other_images_cannot_continue_a_network(halves):
    (images, labels), _ = halves
    half = train(images, labels, small(layers=1))
    with pytest.raises(
        ValueError, match=r"of shape \(3, 12, 12\) and 6 classes to continue the network, got \(3, 12, 12\) and 2"
    ):
        train(images, labels % 2, small(layers=2), start=half)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["balanced", "fast"])
@pytest.mark.parametrize("options", [{}, {"scaling": "channel", "head": "ridge"}], ids=str)
def test_half_precision_learns_the_same_to_its_rounding(precision, options, halves):
    """On a CPU the GPU's half-precision path is emulated: same code, slower arithmetic."""
    (images, labels), test = halves
    config = small(layers=3, stop_at_zero_error=False, bank="pca", ridge=0.3, **options)
    exact, exact_history = train_network(images, labels, config, test=test)
    rough, history = train_network(images, labels, config, test=test, compute=ComputeOptions(precision=precision))
    assert rough.half
    assert not exact.half
    # From the second layer on a rounded residual may choose another label, so only accuracies are compared there.
    wanted, found = exact.outputs(test[0], layers=1), rough.outputs(test[0], layers=1)
    assert 0 < float((found - wanted).norm() / wanted.norm()) < 0.005
    for rounded, record in zip(history, exact_history, strict=True):
        assert rounded.test_accuracy == pytest.approx(record.test_accuracy, abs=0.04)


def test_half_precision_and_float64_exclude_each_other(halves):
    (images, labels), _ = halves
    with pytest.raises(ValueError, match="precision must be exact with dtype float64, got 'fast'"):
        train(images, labels, small(), compute=ComputeOptions(precision="fast", dtype="float64"))


@pytest.mark.filterwarnings("ignore:images should differ")
def test_equal_images_are_given_up_on_quickly():
    """All patches are equal: filters are zero after a few hundred draws, not after 100,000."""
    images, labels = hard_cases()["all images equal"]
    _, history = train_network(images, labels, small(layers=1))
    assert history[0].seconds["filters"] < 5
