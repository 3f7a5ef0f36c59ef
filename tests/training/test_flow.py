"""The options beyond the paper, in training: against loops, and with all that a run may meet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from naive_flow import naive_flow

from rescnet import ComputeOptions, NetworkConfig, load, save, train
from rescnet.export.files import ExportedNetwork
from rescnet.network.model import Model
from rescnet.stages.patches import remove_patch_means
from rescnet.training.layer_patches import LayerPatches
from rescnet.training.trainer import Trainer

SMALL = {
    "filters": 5, "layers": 3, "block_sizes": [6], "block_stride": 2, "pyramid": (2, 1), "ridge": 0.3,
    "stop_at_zero_error": False,
}  # fmt: skip
OPTIONS = [
    {"activation": "relu", "filter_labels": "residual", "draw_from": "wrong"},
    {"activation": "abs", "momentum": 0.5, "ridge_growth": 1.5},
    {"activation": "tanh", "head": "ridge", "margin_weights": 0.7, "momentum": 0.3},
    {"stack_depth": 2, "first_filter_size": 5, "bank": "pca; pca + stacked-lda"},
    {"stack_depth": 1, "grey_stack_every": 2, "grey_filter_size": 5, "bank": "pca + stacked-lda; pca"},
    {"stack_depth": 1, "bank": "patches + rotated-pca", "step": "held-out"},
    {"stack_depth": 2, "bank": "pca; stacked-lda | 1 pca + 2 patches"},
    {"draw_from": "residual", "bank": "patches + stacked-lda", "dilation": 2},
    {"dilation": 3, "filter_size": 2, "activation": "relu", "bank": "pca"},
    {"border": "zero-before-scaling", "activation": "tanh"},
    {"border": "zero-before-scaling", "stack_depth": 2, "first_filter_size": 4},
    {"border": "edge", "dilation": 2},
    {"border": "edge", "filter_size": 2, "bank": "pca"},
    {"posterior": "normalised-sigmoid", "learning_rate": 1.0, "sigmoid_scale": 4.0},
    {"head": "ridge", "step": "held-out", "learning_rate": 0.9, "ridge": 0.01, "momentum": 0.4},
]

WITH_FEATURES = {"contrast": 3, "rectifier": "both", "stack_depth": 2, "activation": "relu", "momentum": 0.3}


def config_of(**options):
    return NetworkConfig(**(SMALL | options))


@pytest.fixture(scope="module")
def few(blobs):
    images, labels = blobs
    return (images[:36], labels[:36]), (images[36:50], labels[36:50])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_whole_network_matches_the_naive_one(options, few):
    (images, labels), held_out = few
    config, compute = config_of(**options), ComputeOptions(dtype="float64")
    network, _ = train(images, labels, config, validation=held_out, compute=compute)
    staged = list(network.stack.staged_outputs(torch.as_tensor(np.concatenate([images, held_out[0]]))))
    for found, wanted in zip(staged, naive_flow(images, labels, network, held_out), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-5 if config.step == "held-out" else 1e-8)


@pytest.mark.parametrize("options", [*OPTIONS, WITH_FEATURES], ids=str)
def test_half_precision_gives_the_same_to_its_rounding(options, few):
    (images, labels), test = few
    config = config_of(**({"layers": 2, "bank": "pca"} | options))
    exact, _ = train(images, labels, config, validation=test)
    rough, history = train(images, labels, config, validation=test, compute=ComputeOptions(precision="balanced"))
    assert rough.half
    if config.bank == "pca":  # filters learnt from the sums of halves: the leading ones, which are well apart
        alike = torch.nn.functional.cosine_similarity(
            rough.layers[1].weights[:3].flatten(1), exact.layers[1].weights[:3].flatten(1)
        )
        assert float(alike.min()) > 0.99
    # The same layers, computed in halves: heads fitted anew might meet other residual labels.
    halved = type(exact)(config, exact.image_shape, exact.classes, exact.layers, half=True)
    wanted = exact.outputs(images)
    assert 0 < float((halved.outputs(images) - wanted).norm() / wanted.norm()) < 0.005
    predicted = rough.predict(test[0]).numpy()
    assert float((predicted == test[1]).mean()) == pytest.approx(history[-1].validation_accuracy, abs=0.04)


@pytest.mark.parametrize("options", [*OPTIONS, WITH_FEATURES], ids=str)
def test_a_run_taken_up_from_its_files_ends_bit_for_bit_the_same(options, few, tmp_path):
    (images, labels), validation = few
    whole, history = train(images, labels, config_of(**options), validation=validation)
    begun = train(images, labels, config_of(**(options | {"layers": 2})), validation=validation)
    save(tmp_path / "begun", Model(*begun, tuple("abcdef"), {}))
    read = load(tmp_path / "begun")
    resumed, again = train(
        images, labels, config_of(**options), validation=validation, start=(read.network, read.history)
    )
    for a, b in zip(whole.layers, resumed.layers, strict=True):
        assert torch.equal(a.weights, b.weights)
        assert torch.equal(a.head.weights, b.head.weights)
        assert a.rate == b.rate
    assert [r.validation_accuracy for r in again] == [r.validation_accuracy for r in history]


@pytest.mark.parametrize("options", [*OPTIONS, WITH_FEATURES], ids=str)
def test_chunks_and_exported_modules_say_the_same(options, few):
    (images, labels), test = few
    network, history = train(images, labels, config_of(**options), validation=test, test=test)
    outputs = network.outputs(test[0])
    torch.testing.assert_close(network.outputs(test[0], chunk=7), outputs, rtol=0, atol=1e-5)
    torch.testing.assert_close(ExportedNetwork(network)(torch.as_tensor(test[0]).float()), outputs, rtol=0, atol=1e-5)
    for record in history:
        predicted = network.predict(test[0], layers=record.layer).numpy()
        assert float((predicted == test[1]).mean()) == pytest.approx(record.test_accuracy, abs=0.04)


def test_the_step_is_the_share_that_is_best_on_the_validation_images(few):
    (images, labels), held_out = few
    options = {"head": "ridge", "ridge": 0.01, "learning_rate": 0.9, "test_views": "flip"}
    _, history = train(images, labels, config_of(step="held-out", **options), validation=held_out)
    fixed, _ = train(images, labels, config_of(**options), validation=held_out)
    # Layer 1 of both has the same head; its outputs, divided by α, are its corrections, the mean of both views.
    correction = fixed.outputs(held_out[0], layers=1).double() / 0.9
    wanted = 0.8 * torch.eye(6, dtype=torch.float64)[torch.as_tensor(held_out[1])]
    share = float((wanted * correction).sum() / correction.square().sum())
    assert 0 < share < 1
    assert history[0].rate == pytest.approx(0.9 * share, rel=1e-5)
    assert all(0 <= record.rate <= 0.9 for record in history)


def test_the_ridge_grows_from_layer_to_layer(few):
    (images, labels), _ = few
    _, history = train(images, labels, config_of(ridge_growth=2.0))
    assert [record.ridge for record in history] == pytest.approx([0.3, 0.6, 1.2])
    assert config_of(ridge_growth=10).ridge_of(5000) == pytest.approx(0.3e6)
    assert config_of(ridge_growth=2, shrinkage="convex").ridge_of(9) == 1


def test_what_does_not_go_together_is_refused(few):
    (images, labels), _ = few
    with pytest.raises(ValueError, match="step is 'held-out' but there are no validation images: give some"):
        train(images, labels, config_of(step="held-out"))
    with pytest.raises(
        ValueError, match=r"dilation is 6 but filters of 3×3 then cover .* 12 pixels: choose at most 5\."
    ):
        train(images, labels, config_of(dilation=6))
    with pytest.raises(ValueError, match="margin_weights go with sign_samples 'all' only"):
        config_of(margin_weights=0.5, sign_samples="own")


def test_files_and_stores_make_no_difference(few, tmp_path):
    (images, labels), held_out = few
    config = config_of(activation="abs", stack_depth=2, momentum=0.3, step="held-out", margin_weights=0.5)
    found = [
        train(images, labels, config, validation=held_out, compute=compute)[0]
        for compute in (ComputeOptions(), ComputeOptions(maps="file", scratch=str(tmp_path)))
    ]
    assert torch.equal(*(network.outputs(images) for network in found))


@pytest.mark.parametrize("centring", ["mean-patch", "each-patch"])
def test_drawn_dilated_patches_are_those_the_covariance_is_of(few, centring):
    """All patches gathered one by one, against the sums over them; and the half-precision sums against both."""
    (images, labels), _ = few
    config = config_of(dilation=2, centring=centring)
    trainer = Trainer(images[:8], labels[:8], config, None, None, ComputeOptions(precision="balanced"))
    trainer.add_layer()
    maps, pixels, span = trainer.training.maps, trainer.training.images, 5
    network = trainer.network

    def source(half):
        return LayerPatches(
            replace(network, half=half), trainer._input_range(2), maps, pixels, torch.as_tensor(labels[:8]), 3, 3,
            torch.Generator(), dilation=2,
        )  # fmt: skip

    exact = source(half=False)
    rows = 12 - span + 1
    places = torch.cartesian_prod(torch.arange(8), torch.arange(rows), torch.arange(rows)).T
    gathered = exact.gather(*places)
    assert (exact.rows, exact.columns) == (rows, rows)
    torch.testing.assert_close(exact.mean(), gathered.mean(0), rtol=0, atol=1e-5)
    centred = remove_patch_means(gathered, exact.channels) if centring == "each-patch" else gathered
    torch.testing.assert_close(exact.covariance(), torch.cov(centred.T, correction=0), rtol=0, atol=1e-5)
    torch.testing.assert_close(source(half=True).covariance(), exact.covariance(), rtol=0, atol=1e-3)


def test_signs_of_pca_filters_are_drawn_anew_in_each_layer(few):
    """Layers that restart from the image find the same eigenvectors."""
    (images, labels), _ = few
    config = config_of(bank="pca", stack_depth=1, pca_signs="drawn", filters=20)
    first, second, _ = (layer.weights for layer in train(images, labels, config)[0].layers)
    signs = (first * second).flatten(1).sum(1)
    torch.testing.assert_close(second, signs.sign()[:, None, None, None] * first)
    assert {-1.0, 1.0} == set(signs.sign().tolist())


def test_the_plan_counts_what_the_options_hold(few):
    (images, labels), held_out = few

    def held(**options):
        return Trainer(images, labels, config_of(**options), held_out, None, ComputeOptions()).plan.gram_bytes

    plain, (n, m) = held(), (len(images), len(held_out[0]))
    assert held(momentum=0.5) - plain == (n + m) * 6 * 4
    assert held(margin_weights=0.5) - plain >= n * 4
    assert held(step="held-out") - plain >= m * 6 * 4
