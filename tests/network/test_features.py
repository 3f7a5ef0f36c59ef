"""Features of a layer against their definitions, and networks that use them: trained, saved and continued."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rescnet import ComputeOptions, make_config, train
from rescnet.model_files import load_model, save_model
from rescnet.network.model import Model
from rescnet.network.stack import LayerStack
from rescnet.stages.pooling import matrix_roots, pool_features

BASE = {
    "filters": 4, "block_sizes": (4,), "block_stride": 2, "pyramid": (2, 1), "layers": 3, "stop_at_zero_error": False,
}  # fmt: skip
MAPS = torch.randn(5, 4, 12, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def pooled(maps, config, diagonal=False):
    ((grid, cells),) = config.grids((12, 12))
    return pool_features(maps, grid, cells, "channel", diagonal, config.pooling)


def test_features_are_pooled_correlations():
    config = make_config(**BASE)
    features = LayerStack(config, (3, 12, 12), 2).features(MAPS)
    assert features.shape == (5, config.features((12, 12))) == (5, 5 * 6)
    assert torch.equal(features, pooled(MAPS, config))


def test_both_signs_are_separate_maps():
    config = make_config(**BASE, rectifier="both")
    features = LayerStack(config, (3, 12, 12), 2).features(MAPS)
    assert features.shape == (5, config.features((12, 12))) == (5, 5 * 28)
    torch.testing.assert_close(features, pooled(torch.cat([MAPS, -MAPS], 1), config))


def test_features_of_several_block_sizes_are_joined():
    config = make_config(**BASE | {"block_sizes": (4, 6)})
    (small, _), (large, _) = config.grids((12, 12))
    assert (small.block, large.block) == ((4, 4), (6, 6))
    features = LayerStack(config, (3, 12, 12), 2).features(MAPS)
    assert features.shape == (5, config.features((12, 12)))
    single = [pooled(MAPS, make_config(**BASE | {"block_sizes": (size,)})) for size in (4, 6)]
    assert torch.equal(features, torch.cat(single, 1))


def newton_schulz(matrix):
    identity, trace = np.eye(len(matrix)), np.trace(matrix)
    y, z = matrix / trace, identity
    for _ in range(5):
        step = 0.5 * (3 * identity - z @ y)
        y, z = y @ step, step @ z
    return np.sqrt(trace) * y


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-9), (torch.float32, 1e-4), (torch.float16, 4e-3)])
def test_matrix_roots_are_taken_cell_by_cell(dtype, bound):
    config, maps = make_config(**BASE, pooling="mean", matrix_root=True), MAPS.to(dtype)
    correlations = pooled(maps, config, diagonal=True).double().numpy()
    rows, columns = np.triu_indices(4)
    expected = []
    for cell in correlations.reshape(-1, len(rows)):
        matrix = np.eye(4)
        matrix[rows, columns] = matrix[columns, rows] = cell
        expected.append(newton_schulz(matrix)[rows, columns])
    found = LayerStack(config, (3, 12, 12), 2).features(maps)
    assert found.dtype == dtype and found.shape == (5, config.features((12, 12)))
    np.testing.assert_allclose(found.double(), np.reshape(expected, correlations.shape), rtol=bound, atol=bound)


def test_the_root_times_itself_is_the_matrix():
    samples = torch.randn(5, 40, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    rows, columns = torch.triu_indices(6, 6)
    triangles = (samples.mT @ samples / 40)[:, rows, columns]
    root = torch.zeros(5, 6, 6, dtype=torch.float64)
    root[:, rows, columns] = root[:, columns, rows] = matrix_roots(triangles, 6, diagonal=True)
    torch.testing.assert_close((root @ root)[:, rows, columns], triangles, rtol=0, atol=2e-2)
    assert bool((matrix_roots(torch.zeros(2, 20), 4, diagonal=True) == 0).all())  # no channel varies: no NaN


def test_roots_in_threads_have_the_same_bits(monkeypatch):
    threads, features = torch.get_num_threads(), torch.rand(7, 3 * 55, generator=torch.Generator().manual_seed(2))
    try:
        torch.set_num_threads(1)
        expected = matrix_roots(features, 10, diagonal=True)
        torch.set_num_threads(3)
        monkeypatch.setattr("rescnet.stages.pooling.THREADED", 1)
        with torch.inference_mode():
            assert torch.equal(matrix_roots(features, 10, diagonal=True), expected)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


OPTIONS = {
    "roots": {"matrix_root": True, "pooling": "mean"},
    "both signs": {"rectifier": "both"},
    "blocks": {"block_sizes": (4, 6)},
    "views": {"augment": "flip", "test_views": "flip"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_network_is_trained_saved_and_continued(blobs, tmp_path, options):
    images, labels = blobs[0][:90], blobs[1][:90]
    config = make_config(**BASE | options)
    compute = ComputeOptions(device="cpu")
    network, history = train(images, labels, config, test=(images[:30], labels[:30]), compute=compute)
    assert history[-1].test_accuracy > 0.5
    outputs = network.outputs(images[:30])
    right = float((outputs.argmax(1).numpy() == labels[:30]).mean())
    assert right == pytest.approx(history[-1].test_accuracy)
    save_model(tmp_path / "model", Model(network, history, tuple("abcdef"), {}))
    loaded = load_model(tmp_path / "model").network
    assert torch.equal(loaded.outputs(images[:30]), outputs)
    begun = train(images, labels, make_config(**BASE | options | {"layers": 2}), compute=compute)
    further, _ = train(images, labels, config, compute=compute, start=begun)
    assert torch.equal(further.outputs(images[:30]), outputs)
