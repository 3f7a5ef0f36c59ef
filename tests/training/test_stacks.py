"""Whole networks, with stacks and grey stacks: against loops, in half precision, from files, and exported."""

from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
import torch
from train_network import train_network

from rescnet import ComputeOptions, NetworkConfig, load, save, train
from rescnet.export.files import ExportedNetwork
from rescnet.model import Model

pytestmark = pytest.mark.slow

SMALL = {
    "filters": 5, "layers": 3, "block_sizes": [6], "block_stride": 2, "pyramid": (2, 1), "ridge": 0.3,
    "stop_at_zero_error": False,
}  # fmt: skip
NAIVE = [
    {},
    {"scaling": "global"},
    {"filter_size": 2, "bank": "pca"},
    {"posterior": "normalised-sigmoid", "learning_rate": 1.0, "sigmoid_scale": 4.0},
    {"head": "ridge", "learning_rate": 0.9, "ridge": 0.01},
    {"stack_depth": 2, "first_filter_size": 5, "bank": "pca; pca + stacked-lda"},
    {"stack_depth": 1, "grey_stack_every": 2, "bank": "pca + stacked-lda"},
    {"stack_depth": 2, "bank": "patches + stacked-lda", "head": "ridge"},
]
STACKS = [
    {"stack_depth": 1, "grey_stack_every": 2, "bank": "pca"},
    {"stack_depth": 2, "first_filter_size": 5, "bank": "pca; pca + stacked-lda"},
    {"stack_depth": 2, "rectifier": "both", "pooling": "mean", "matrix_log": True, "bank": "patches + pca"},
]


def config_of(**options):
    return NetworkConfig(**(SMALL | options))


@pytest.fixture(scope="module")
def few(blobs):
    images, labels = blobs
    return (images[:36], labels[:36]), (images[36:50], labels[36:50])


@pytest.mark.parametrize("options", NAIVE, ids=str)
def test_a_network_matches_the_naive_one(options, few):
    (images, labels), (new, _) = few
    network, _ = train_network(images, labels, config_of(**options), compute=ComputeOptions(dtype="float64"))
    staged = network.stack.staged_outputs(torch.as_tensor(np.concatenate([images, new])))
    for found, wanted in zip(staged, naive.network_outputs(images, labels, network, new), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-8)


@pytest.mark.parametrize("options", STACKS, ids=str)
def test_half_precision_is_close(options, few):
    (images, labels), test = few
    config = config_of(**options, layers=2)
    exact, _ = train_network(images, labels, config, test=test)
    rough, history = train_network(images, labels, config, test=test, compute=ComputeOptions(precision="balanced"))
    assert rough.half
    if config.bank == "pca":  # the leading filters, whose eigenvalues are well apart
        leading = (network.layers[1].weights[:3].flatten(1) for network in (rough, exact))
        assert float(torch.nn.functional.cosine_similarity(*leading).min()) > 0.99
    # The same layers in half precision: heads fitted again might have other residual labels.
    halved = replace(exact, stack=replace(exact.stack, half=True))
    wanted = exact.outputs(images)
    assert 0 < float((halved.outputs(images) - wanted).norm() / wanted.norm()) < 0.005
    predicted = rough.predict_indices(test[0]).numpy()
    assert float((predicted == test[1]).mean()) == pytest.approx(history[-1].test_accuracy, abs=0.04)


@pytest.mark.parametrize("options", STACKS, ids=str)
def test_a_run_resumed_from_files_is_bit_for_bit_the_same(options, few, tmp_path):
    (images, labels), validation = few
    whole, history = train_network(images, labels, config_of(**options), validation=validation)
    begun = train(images, labels, config_of(**options, layers=2), validation=validation)
    save(Model(begun.network, begun.history, tuple("abcdef"), {}), tmp_path / "begun")
    read = load(tmp_path / "begun")
    start = read.network, read.history
    resumed, again = train_network(images, labels, config_of(**options), validation=validation, start=start)
    for a, b in zip(whole.layers, resumed.layers, strict=True):
        assert torch.equal(a.weights, b.weights)
        assert torch.equal(a.head.weights, b.head.weights)
        assert a.rate == b.rate
    assert [r.validation_accuracy for r in again] == [r.validation_accuracy for r in history]


@pytest.mark.parametrize("options", [*STACKS, {"head": "ridge", "test_views": "flip"}], ids=str)
def test_chunks_exports_and_history_agree(options, few):
    (images, labels), test = few
    network, history = train_network(images, labels, config_of(**options), test=test)
    outputs = network.outputs(test[0])
    parts = torch.cat([network.outputs(part) for part in np.array_split(test[0], 7)])
    torch.testing.assert_close(parts, outputs, rtol=0, atol=1e-5)
    torch.testing.assert_close(ExportedNetwork(network)(torch.as_tensor(test[0]).float()), outputs, rtol=0, atol=1e-5)
    for record in history:
        predicted = network.predict_indices(test[0], layers=record.layer).numpy()
        assert float((predicted == test[1]).mean()) == pytest.approx(record.test_accuracy, abs=0.04)


def test_pca_signs_are_drawn_for_each_layer(few):
    """Layers on the image alone have the same eigenvectors, with other signs."""
    (images, labels), _ = few
    config = config_of(bank="pca", stack_depth=1, pca_signs="drawn", filters=20)
    first, second, _ = (layer.weights for layer in train_network(images, labels, config)[0].layers)
    signs = (first * second).flatten(1).sum(1)
    torch.testing.assert_close(second, signs.sign()[:, None, None, None] * first)
    assert {-1.0, 1.0} == set(signs.sign().tolist())
