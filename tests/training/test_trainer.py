from __future__ import annotations

import naive
import numpy as np
import pytest
import torch

from rescnet import ComputeOptions, NetworkConfig, train
from rescnet.training.trainer import Trainer

SMALL = {"filters": 8, "layers": 4, "block_sizes": [6], "block_stride": 2, "pyramid": (2, 1), "most_draws": 2000}


def small(**options):
    return NetworkConfig(**(SMALL | options))


@pytest.fixture(scope="module")
def halves(blobs):
    images, labels = blobs
    return (images[:160], labels[:160]), (images[160:], labels[160:])


def naive_rescnet(images, labels, network, config):
    """Rebuild every layer's output by the loops of tests/naive.py from the filters and scales a network has learnt.

    The heads are fitted anew, one inverted matrix per class and sign, so they check the trainer's own.
    """
    classes = network.classes
    raw = images.astype(np.float64)
    maps, output, outputs = None, np.zeros((len(images), classes)), []
    first_low, first_high = raw.min(), raw.max()
    scaled_images = (raw - first_low) / (first_high - first_low)
    for number, layer in enumerate(network.layers, 1):
        x = scaled_images
        if maps is not None and config.scaling == "source":
            x = np.concatenate([(maps - maps.min()) / (maps.max() - maps.min()), scaled_images], 1)
        elif maps is not None:
            x = np.concatenate([maps, scaled_images], 1)
            x = (x - x.min()) / (x.max() - x.min())
        maps = naive.convolve(x, layer.weights.numpy(), layer.bias.numpy())
        size = images.shape[2:]
        block, stride = (config.block_size,) * 2, (config.block_stride,) * 2
        blocks = naive.second_order(np.maximum(maps, 0), block, stride, "channel", False)
        features = naive.pyramid_official(blocks, size, block, stride, config.pyramid, "max")
        spread = features.std(0)
        features = features[:, spread > 1e-12] / spread[spread > 1e-12]
        if number == 1:
            targets, signs = labels, np.ones(len(labels), int)
        else:
            targets, signs = naive.residual_step(labels, output, config.ceiling)
        correction = np.zeros_like(output)
        for sign in (1, -1):
            share = np.mean(signs == sign)
            for c in range(classes):
                member = (targets == c) & (signs == sign)
                if member.any():
                    weights, bias = naive.binary_lda(features, member, config.ridge)
                    scores = features @ weights + bias
                    correction[:, c] += sign * share / (1 + np.exp(-scores / config.sigmoid_scale))
        output = output + config.rate_of(number) * correction
        outputs.append(output)
    return outputs


@pytest.mark.parametrize("scaling", ["source", "global"])
def test_a_whole_network_matches_the_naive_one(scaling, blobs):
    images, labels = blobs[0][:60], blobs[1][:60]
    config = small(filters=5, layers=3, ridge=0.3, stop_at_zero_error=False, scaling=scaling)
    network, _ = train(images, labels, config, compute=ComputeOptions(dtype="float64"))
    staged = list(network.stack.staged_outputs(torch.as_tensor(images)))
    expected = naive_rescnet(images, labels, network, config)
    assert len(staged) == len(expected) == 3
    for found, wanted in zip(staged, expected, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-8)


def test_it_learns(halves):
    (images, labels), test = halves
    _, history = train(images, labels, small(layers=6), test=test)
    assert history[-1].test_accuracy > 0.7  # six classes


def test_the_same_seed_gives_the_same_network_bit_for_bit(halves):
    (images, labels), _ = halves
    first, _ = train(images, labels, small(layers=2))
    again, _ = train(images, labels, small(layers=2))
    other, _ = train(images, labels, small(layers=2, seed=1))
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
    network, _ = train(tensor, labels, small(layers=2, stop_at_zero_error=False))
    assert modes == [(True, False)] * 2
    for layer in network.layers:
        for learnt in (layer.weights, layer.bias, layer.head.weights, layer.head.bias):
            assert not learnt.requires_grad
            assert learnt.grad_fn is None
    assert tensor.grad is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"head": "multiclass-lda"},
        {"head": "ridge", "learning_rate": 0.3},
        {"sign_samples": "own"},
        {"sign_samples": "own", "head": "multiclass-lda", "posterior": "softmax", "softmax_scale": 0.1},
        {"posterior": "softmax", "softmax_scale": 0.5},
        {"posterior": "normalised-sigmoid", "learning_rate": 1.0},
        {"pca_signs": "drawn", "stacked_lda_signs": "both"},
        {"scaling": "channel", "z_score": "block", "pooling": "mean", "pyramid_bins": "adaptive"},
        {"bank": "pca", "centring": "each-patch", "patch_samples": 3000, "first_filter_size": 5},
        {"shrinkage": "convex", "ridge": 0.2, "prior": "equal", "rate_on_first_layer": False},
        {"standardise": False, "ridge": 0.01, "diagonal": "keep"},
    ],
    ids=str,
)
def test_every_reading_trains_and_predicts_what_it_trained(options, halves):
    (images, labels), test = halves
    network, history = train(images, labels, small(layers=3, stop_at_zero_error=False, **options), test=test)
    assert history[-1].test_accuracy > 0.5
    outputs = network.outputs(test[0], chunk=13)
    assert bool(outputs.isfinite().all())
    # The trainer followed the test images layer by layer; the network, asked afterwards, says the same.
    for record in history:
        predicted = network.predict(test[0], layers=record.layer)
        assert float((predicted.numpy() == test[1]).mean()) == pytest.approx(record.test_accuracy, abs=0.02)


def test_own_sign_samples_use_only_their_own_images(blobs):
    images, labels = blobs[0][:100], blobs[1][:100]
    config = small(filters=4, sign_samples="own", ridge=0.5, rate_on_first_layer=False, sigmoid_scale=2.5)
    trainer = Trainer(images, labels, config, None, None, ComputeOptions(dtype="float64"))
    trainer.add_layer()
    output = trainer.training.output.numpy().copy()
    trainer.add_layer()
    layer = trainer.network.layers[1]
    targets, signs = naive.residual_step(labels, output, config.ceiling)
    features = trainer.network.features(trainer.training.maps.whole()).numpy()
    assert 10 < (signs == 1).sum() < 90
    for sign, offset in ((1, 0), (-1, 6)):
        mine = signs == sign
        spread = features[mine].std(0)
        live = spread > 1e-12
        group = int(targets[mine][0])
        assert not (targets[mine] == group).all()
        scaled = features[:, live] / spread[live]
        weights, bias = naive.binary_lda(scaled[mine], targets[mine] == group, 0.5)
        found = features @ layer.head.weights[:, offset + group].numpy() + float(layer.head.bias[offset + group])
        np.testing.assert_allclose(found, scaled @ weights + bias, rtol=1e-6, atol=1e-6)


def test_records_tell_the_layer(halves):
    (images, labels), test = halves
    _, history = train(images, labels, small(layers=2, stop_at_zero_error=False), validation=test, test=test)
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
    _, history = train(images, labels, small(layers=30, ridge=1e-3))
    assert history.stopped == "no training image is wrong"
    assert len(history) < 30
    assert [r.train_accuracy == 1 for r in history] == [False] * (len(history) - 1) + [True]


def test_it_stops_when_validation_no_longer_rises(halves):
    (images, labels), test = halves
    network, history = train(
        images, labels, small(layers=40, patience=2, stop_at_zero_error=False, ridge=1e-4), validation=test
    )
    assert "has not risen for 2 layers" in history.stopped
    assert history.layers_since_best() == 2
    assert len(history) < 40
    assert network.used_layers == history.best_layer() == len(network.layers) - 2
    predicted = network.predict(test[0]).numpy()
    np.testing.assert_array_equal(predicted, network.first_layers(history.best_layer()).predict(test[0]).numpy())
    assert np.mean(predicted == np.asarray(test[1])) == pytest.approx(history[-3].validation_accuracy)


def test_it_stops_at_l_layers(halves):
    (images, labels), _ = halves
    _, history = train(images, labels, small(layers=2, stop_at_zero_error=False))
    assert len(history) == 2
    assert "2 layers were asked for" in history.stopped


@pytest.mark.parametrize("scale", [(1 / 255, 0.0), (1.0, -128.0), (37.0, 1000.0)])
def test_the_unit_of_pixels_does_not_matter(scale, halves):
    (images, labels), test = halves
    config, compute = small(layers=2, stop_at_zero_error=False), ComputeOptions(dtype="float64")
    plain, _ = train(images, labels, config, compute=compute)
    factor, offset = scale
    other, _ = train(images * factor + offset, labels, config, compute=compute)
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


@pytest.mark.parametrize("name", hard_cases())
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ridge": 0.0},
        {"ridge": 0.0, "head": "multiclass-lda"},
        {"z_score": "block"},
        {"sign_samples": "own"},
        {"sign_samples": "own", "head": "multiclass-lda", "ridge": 1e-6},
        {"draw_ridge": 0.0},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::rescnet.network.inputs.InputWarning")  # of the class number without images
def test_hard_images_train_and_nothing_is_nan(name, options):
    images, labels = hard_cases()[name]
    network, history = train(images, labels, small(layers=3, stop_at_zero_error=False, **options))
    assert len(history) == 3
    assert bool(network.outputs(images).isfinite().all())
    for layer in network.layers:
        assert bool(layer.head.weights.isfinite().all())


def test_more_features_than_images_train_without_ridge_and_the_record_tells(halves):
    (images, labels), _ = halves
    _, history = train(images[:40], labels[:40], small(layers=2, ridge=0.0, filters=12, stop_at_zero_error=False))
    assert history[0].ridge > 0


def test_nan_never_enters_the_output(halves, monkeypatch):
    (images, labels), _ = halves
    trainer = Trainer(images, labels, small(), None, None, ComputeOptions())
    trainer.add_layer()
    before = trainer.training.output.clone()
    monkeypatch.setattr(trainer.network, "update", lambda layer, output, features: output * float("nan"))
    with pytest.raises(FloatingPointError, match="layer 2 gave NaN"):
        trainer.add_layer()
    assert torch.equal(trainer.training.output, before)
    assert len(trainer.network.layers) == len(trainer.history) == 1


def test_going_on_from_a_network_ends_where_an_uninterrupted_run_ends(halves):
    (images, labels), test = halves
    options = {"stop_at_zero_error": False}
    whole, whole_history = train(images, labels, small(layers=4, **options), validation=test)
    half = train(images, labels, small(layers=2, **options), validation=test)
    resumed, history = train(images, labels, small(layers=4, **options), validation=test, start=half)
    assert len(half[0].layers) == len(half[1]) == 2
    assert [r.validation_accuracy for r in history] == [r.validation_accuracy for r in whole_history]
    for a, b in zip(whole.layers, resumed.layers, strict=True):
        assert torch.equal(a.weights, b.weights)
        assert torch.equal(a.head.weights, b.head.weights)


def test_going_on_with_other_images_is_refused(halves):
    (images, labels), _ = halves
    half = train(images, labels, small(layers=1))
    with pytest.raises(ValueError, match=r"takes images \(3, 12, 12\) of 6 classes, these are \(3, 12, 12\) of 2"):
        train(images, labels % 2, small(layers=2), start=half)


@pytest.mark.parametrize("precision", ["balanced", "fast"])
@pytest.mark.parametrize("options", [{}, {"scaling": "channel", "head": "ridge"}, {"sign_samples": "own"}], ids=str)
def test_half_precision_learns_the_same_to_its_rounding(precision, options, halves):
    """On a CPU the GPU's half-precision path is emulated: same code, slower arithmetic."""
    (images, labels), test = halves
    config = small(layers=3, stop_at_zero_error=False, bank="pca", ridge=0.3, **options)
    exact, exact_history = train(images, labels, config, test=test)
    rough, history = train(images, labels, config, test=test, compute=ComputeOptions(precision=precision))
    assert rough.half
    assert not exact.half
    # From the second layer on a rounded residual may choose another label, so only accuracies are compared there.
    wanted, found = exact.outputs(test[0], layers=1), rough.outputs(test[0], layers=1)
    assert 0 < float((found - wanted).norm() / wanted.norm()) < 0.005
    for rounded, record in zip(history, exact_history, strict=True):
        assert rounded.test_accuracy == pytest.approx(record.test_accuracy, abs=0.04)


def test_half_precision_and_float64_exclude_each_other(halves):
    (images, labels), _ = halves
    with pytest.raises(ValueError, match="precision 'fast' keeps features in float16"):
        train(images, labels, small(), compute=ComputeOptions(precision="fast", dtype="float64"))


def test_equal_images_are_given_up_on_quickly():
    """All patches equal: zero filters after a few hundred draws, not after the hundred thousand that are allowed."""
    images, labels = hard_cases()["all images equal"]
    config = NetworkConfig(**(SMALL | {"layers": 1, "most_draws": 100_000}))
    _, history = train(images, labels, config)
    assert history[0].seconds["filters"] < 5


def test_patience_needs_validation_images(halves):
    (images, labels), _ = halves
    with pytest.raises(ValueError, match="patience is 3 but there are no validation images"):
        train(images, labels, small(patience=3))
