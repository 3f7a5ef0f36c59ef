"""Features of a layer against their definitions, and networks that use them: trained, saved and continued."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from train_network import train_network

from rescnet import ComputeOptions, Config, NetworkConfig
from rescnet.fused import has_numba
from rescnet.model import Model
from rescnet.network.stack import LayerStack
from rescnet.saving import load_model, save_model
from rescnet.stages.pooling import log_scale, matrix_logs, pool_features

BASE = {
    "filters": 4, "block_sizes": (4,), "block_stride": 2, "pyramid": (2, 1), "layers": 3, "stop_at_zero_error": False,
}  # fmt: skip
MAPS = torch.randn(5, 4, 12, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def pooled(maps, config, diagonal=False):
    return pool_features(maps, config.grids((12, 12)), "channel", diagonal, config.pooling)


def test_features_are_pooled_correlations():
    config = NetworkConfig(**BASE)
    features = LayerStack(config, (3, 12, 12), 2).features(MAPS)
    assert features.shape == (5, config.features((12, 12))) == (5, 5 * 6)
    torch.testing.assert_close(features, pooled(MAPS, config))


def test_both_signs_are_separate_maps():
    config = NetworkConfig(**BASE, rectifier="both")
    features = LayerStack(config, (3, 12, 12), 2).features(MAPS)
    assert features.shape == (5, config.features((12, 12))) == (5, 5 * 28)
    torch.testing.assert_close(features, pooled(torch.cat([MAPS, -MAPS], 1), config))


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_features_are_the_same_without_numba(pooling, monkeypatch):
    config = NetworkConfig(**BASE | {"block_sizes": (4, 6)}, pooling=pooling)
    compiled = LayerStack(config, (3, 12, 12), 2).features(MAPS)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr("rescnet.fused.has_numba", has_numba.__wrapped__)
    assert not has_numba.__wrapped__()
    torch.testing.assert_close(LayerStack(config, (3, 12, 12), 2).features(MAPS), compiled)


@pytest.mark.parametrize("readout", ["heads", "kernel"])
def test_an_output_does_not_depend_on_what_was_predicted_before(blobs, readout, tmp_path):
    """In a process that has predicted nothing, and after other images, one by one and many at once: the same bits."""
    images, config = blobs[0], NetworkConfig(**BASE, matrix_log=True, pooling="mean", augment="flip", readout=readout)
    network, history = train_network(images[:60], blobs[1][:60], config, compute=ComputeOptions(device="cpu"))
    network.outputs(images)
    expected = network.outputs(images[60:61])
    save_model(Model(network, history, tuple("abcdef")), tmp_path / "m")
    np.save(tmp_path / "x.npy", images[:90])
    script = """if True:
        import sys, numpy, torch, rescnet
        network, images = rescnet.load(sys.argv[1]).network, numpy.load(sys.argv[2])
        found = [network.outputs(images[60:61])]
        for one in range(70):
            network.outputs(images[one : one + 1])
        found.append(network.outputs(images[60:61]))
        rescnet.load(sys.argv[1]).network.outputs(images)
        network.averaged_over("flip").outputs(images)
        found.append(network.outputs(images[60:61]))
        numpy.save(sys.argv[2], torch.cat(found).numpy())
    """
    subprocess.run([sys.executable, "-c", script, tmp_path / "m", tmp_path / "x.npy"], check=True)
    assert all(np.array_equal(outputs, expected[0]) for outputs in np.load(tmp_path / "x.npy"))


def test_maps_with_gradients_are_pooled_by_the_stage():
    config, maps = NetworkConfig(**BASE), MAPS.clone().requires_grad_()
    features = LayerStack(config, (3, 12, 12), 2).features(maps)
    torch.testing.assert_close(features.detach(), pooled(MAPS, config))
    assert torch.autograd.grad(features.sum(), maps)[0].shape == maps.shape


def test_features_of_several_block_sizes_are_joined():
    config = NetworkConfig(**BASE | {"block_sizes": (4, 6)})
    (small, _), (large, _) = config.grids((12, 12))
    assert (small.block, large.block) == ((4, 4), (6, 6))
    features = LayerStack(config, (3, 12, 12), 2).features(MAPS)
    assert features.shape == (5, config.features((12, 12)))
    single = [pooled(MAPS, NetworkConfig(**BASE | {"block_sizes": (size,)})) for size in (4, 6)]
    torch.testing.assert_close(features, torch.cat(single, 1))


def logarithm(matrix):
    """Σ 1 - (1 - λ)^(2^m) of the eigenvalues of A/tr A, scaled such that the identity stays itself."""
    values, vectors = np.linalg.eigh(matrix / np.trace(matrix))
    grow = lambda x: sum(1 - (1 - x) ** 2**m for m in range(9))  # noqa: E731
    return np.sqrt(np.trace(matrix) / len(matrix)) / grow(1 / len(matrix)) * (vectors * grow(values)) @ vectors.T


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-9), (torch.float32, 1e-4), (torch.float16, 4e-3)])
def test_matrix_logarithms_are_taken_cell_by_cell(dtype, bound):
    config, maps = NetworkConfig(**BASE, pooling="mean", matrix_log=True), MAPS.to(dtype)
    correlations = pooled(maps, config, diagonal=True).double().numpy()
    rows, columns = np.triu_indices(4)
    expected = []
    for cell in correlations.reshape(-1, len(rows)):
        matrix = np.eye(4)
        matrix[rows, columns] = matrix[columns, rows] = cell
        expected.append(logarithm(matrix)[rows, columns])
    found = LayerStack(config, (3, 12, 12), 2).features(maps)
    assert found.dtype == dtype and found.shape == (5, config.features((12, 12)))
    np.testing.assert_allclose(found.double(), np.reshape(expected, correlations.shape), rtol=bound, atol=bound)


def test_an_eigenvalue_twice_as_large_adds_one_to_the_logarithm():
    values = torch.tensor([1.0, 2, 4, 8, 16, 32]).double() / 63
    rows, columns = torch.triu_indices(6, 6)
    found = matrix_logs(torch.diag(values)[rows, columns][None], 6)[0, rows == columns] / log_scale(6)
    steps = found.diff()
    torch.testing.assert_close(steps, torch.ones_like(steps), rtol=0, atol=0.15)
    assert bool((matrix_logs(torch.zeros(2, 20), 4) == 0).all())  # no channel varies: no NaN


def test_logarithms_in_threads_have_the_same_bits(monkeypatch):
    threads, features = torch.get_num_threads(), torch.rand(7, 3 * 55, generator=torch.Generator().manual_seed(2))
    try:
        torch.set_num_threads(1)
        expected = matrix_logs(features, 10)
        torch.set_num_threads(3)
        monkeypatch.setattr("rescnet.stages.pooling.THREADED", 1)
        with torch.inference_mode():
            assert torch.equal(matrix_logs(features, 10), expected)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


def test_features_of_images_in_threads_have_the_same_bits():
    threads, config = torch.get_num_threads(), Config("cifar10-best", filters=4).complete()
    stack = LayerStack(config, (3, 32, 32), 2)
    maps = torch.randn(5, 4, 32, 32, generator=torch.Generator().manual_seed(3))
    try:
        torch.set_num_threads(1)
        expected = stack.features(maps)
        torch.set_num_threads(2)
        with torch.inference_mode():
            found = stack.features(maps)
        assert torch.equal(found, expected)
        assert found.is_inference()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


OPTIONS = {
    "logarithms": {"matrix_log": True, "pooling": "mean"},
    "both signs": {"rectifier": "both"},
    "blocks": {"block_sizes": (4, 6)},
    "views": {"augment": "flip", "test_views": "flip"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_network_is_trained_saved_and_continued(blobs, tmp_path, options):
    images, labels = blobs[0][:90], blobs[1][:90]
    config = NetworkConfig(**BASE | options)
    compute = ComputeOptions(device="cpu")
    network, history = train_network(images, labels, config, test=(images[:30], labels[:30]), compute=compute)
    assert history[-1].test_accuracy > 0.5
    outputs = network.outputs(images[:30])
    right = float((outputs.argmax(1).numpy() == labels[:30]).mean())
    assert right == pytest.approx(history[-1].test_accuracy)
    save_model(Model(network, history, tuple("abcdef"), {}), tmp_path / "model")
    loaded = load_model(tmp_path / "model").network
    assert torch.equal(loaded.outputs(images[:30]), outputs)
    begun = train_network(images, labels, NetworkConfig(**BASE | options | {"layers": 2}), compute=compute)
    further, _ = train_network(images, labels, config, compute=compute, start=begun)
    assert torch.equal(further.outputs(images[:30]), outputs)


def test_networks_are_equal_to_themselves_only(blobs):
    networks = [
        train_network(blobs[0][:40], blobs[1][:40], Config(layers=1, filters=4, augment=""))[0] for _ in range(2)
    ]
    assert networks[0] == networks[0] and networks[0] != networks[1]
    assert networks[1] in networks and len({*networks, *networks}) == 2


def test_views_must_fit_the_images(blobs):
    network, _ = train_network(blobs[0][:40], blobs[1][:40], Config(layers=1, filters=4, augment=""))
    with pytest.raises(ValueError, match=r"test_views must shift images of .* by fewer pixels, got 64"):
        network.averaged_over("shift 64")


def test_a_network_is_moved_by_name(blobs):
    config, compute = Config(layers=1, filters=4, augment=""), ComputeOptions(device="cpu")
    network, _ = train_network(blobs[0][:40], blobs[1][:40], config, compute=compute)
    moved = network.to("cpu")
    assert torch.equal(moved.outputs(blobs[0]), network.outputs(blobs[0])) and moved.readout is network.readout
    half = replace(network, stack=replace(network.stack, half=True))
    assert half.half and not half.to("cpu").half
    with pytest.raises(ValueError, match="device must be auto, cpu, cuda or cuda:0, got 'gpu'"):
        network.to("gpu")
