"""Features beyond the paper: each against what it says it is; networks that use them, trained and saved."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import torch

from rescnet import ComputeOptions, NetworkConfig, make_config, train
from rescnet.config.geometry import BlockGrid, Cell
from rescnet.model_files import load_model, save_model
from rescnet.network.features import layer_features
from rescnet.network.model import Model
from rescnet.stages.matrix_sqrt import matrix_roots
from rescnet.stages.pooling import block_means, pool_features, pooling_input, signed_power

BASE = {"filters": 4, "block_sizes": [4], "block_stride": 2, "pyramid": (2, 1), "layers": 3, "stop_at_zero_error": False}
MAPS = torch.randn(5, 4, 12, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def pooled(maps, config):
    (grid, cells) = config.grids((12, 12))[0]
    return pool_features(maps, grid, cells, config.z_score, config.keeps_diagonal, config.pooling)


def test_nothing_is_changed_unless_asked_for():
    config = make_config(**BASE)
    assert torch.equal(layer_features(config, MAPS), pooled(MAPS, config))
    assert not config.prepares_images


def test_both_signs_are_maps_of_their_own():
    config = make_config(**BASE, rectifier="both")
    features = layer_features(config, MAPS)
    assert features.shape == (5, config.features((12, 12))) == (5, 5 * 28)
    torch.testing.assert_close(features, pooled(torch.cat([MAPS, -MAPS], 1), config))


def test_rectifiers_say_what_is_pooled():
    assert torch.equal(pooling_input(MAPS, "relu"), MAPS)
    assert torch.equal(pooling_input(MAPS, "abs"), MAPS.abs())
    config = make_config(**BASE, rectifier="none")
    lifted = pooled(MAPS + 100, config)  # all positive, so nothing is cut off, and no correlation notices
    torch.testing.assert_close(layer_features(config, MAPS), lifted)
    whole = make_config(**BASE, rectifier="none", z_score="block", means=True, pooling="mean")  # these do notice
    found = layer_features(whole, MAPS).numpy().reshape(5, -1)
    blocks = naive.second_order(MAPS.numpy(), (4, 4), (2, 2), "block", True)
    wanted = naive.pyramid_official(blocks, (12, 12), (4, 4), (2, 2), (2, 1), "mean")
    np.testing.assert_allclose(found[:, : wanted.shape[1]], wanted, atol=1e-9)
    last = MAPS.unfold(2, 4, 2).unfold(3, 4, 2).mean((4, 5)).mean((2, 3))
    np.testing.assert_allclose(found[:, -4:], last, atol=1e-9)


def test_further_block_sizes_and_means_are_added():
    config = make_config(**BASE, more_block_sizes=(6,), means=True)
    features = layer_features(config, MAPS)
    (small, small_cells), (large, large_cells) = config.grids((12, 12))
    assert (small.block, large.block) == ((4, 4), (6, 6)) and features.shape[1] == config.features((12, 12))
    pairs = 6 * len(small_cells)
    torch.testing.assert_close(features[:, :pairs], pooled(MAPS, make_config(**BASE)))
    wanted = block_means(MAPS.clamp_min(0), small, small_cells, "max")
    torch.testing.assert_close(features[:, pairs : pairs + wanted.shape[1]], wanted)
    other = make_config(**(BASE | {"block_sizes": [6]}))
    rest = features[:, pairs + wanted.shape[1] :]
    torch.testing.assert_close(rest[:, : 6 * len(large_cells)], pooled(MAPS, other))


@pytest.mark.parametrize("reduction", ["max", "mean"])
def test_block_means_are_those_of_a_loop(reduction):
    grid, cells = BlockGrid((12, 12), (4, 4), (4, 4)), [Cell(0, 2, 1, 3)]
    found = block_means(MAPS.clamp_min(0), grid, cells, reduction)
    blocks = [
        MAPS[:, :, 4 * r : 4 * r + 4, 4 * c : 4 * c + 4].clamp_min(0).mean((2, 3)) for r in (0, 1) for c in (1, 2)
    ]
    stacked = torch.stack(blocks)
    torch.testing.assert_close(found, stacked.amax(0) if reduction == "max" else stacked.mean(0))


def test_powers_keep_the_sign():
    f = torch.tensor([-4.0, 0.0, 9.0])
    torch.testing.assert_close(signed_power(f.clone(), 0.5), torch.tensor([-2.0, 0.0, 3.0]))


def newton_schulz(matrix):
    identity, trace = np.eye(len(matrix)), np.trace(matrix)
    y, z = matrix / trace, identity
    for _ in range(5):
        step = 0.5 * (3 * identity - z @ y)
        y, z = y @ step, step @ z
    return np.sqrt(trace) * y


@pytest.mark.parametrize("diagonal", ["auto", "keep", "drop"])
def test_matrix_roots_cell_by_cell(diagonal):
    kept = diagonal != "drop"
    mean = BASE | {"pooling": "mean"}
    for maps, bound in ((MAPS, 1e-9), (MAPS.float(), 1e-4), (MAPS.half(), 4e-3)):
        plain = make_config(**mean, diagonal="keep" if kept else "drop")
        correlations = layer_features(plain, maps).double().numpy()
        rows, columns = np.triu_indices(4, 0 if kept else 1)
        expected = []
        for cell in correlations.reshape(-1, len(rows)):
            matrix = np.eye(4)
            matrix[rows, columns] = matrix[columns, rows] = cell
            expected.append(newton_schulz(matrix)[rows, columns])
        config = make_config(**mean, diagonal=diagonal, matrix_root=True)
        found = layer_features(config, maps)
        assert found.dtype == maps.dtype and found.shape == (5, config.features((12, 12)))
        np.testing.assert_allclose(found.double(), np.reshape(expected, correlations.shape), rtol=bound, atol=bound)


def test_the_root_times_itself_is_the_matrix():
    samples = torch.randn(5, 40, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    rows, columns = torch.triu_indices(6, 6)
    triangles = (samples.mT @ samples / 40)[:, rows, columns]
    root = torch.zeros(5, 6, 6, dtype=torch.float64)
    root[:, rows, columns] = root[:, columns, rows] = matrix_roots(triangles, 6, diagonal=True)
    torch.testing.assert_close((root @ root)[:, rows, columns], triangles, rtol=0, atol=2e-2)
    assert bool((matrix_roots(torch.zeros(2, 20), 4, diagonal=True) == 0).all())  # no channel varies: no NaN


OPTIONS = [
    {"matrix_root": True, "pooling": "mean"},
    {"rectifier": "both", "means": True},
    {"more_block_sizes": (6,), "feature_power": 0.5},
    {"contrast": 5, "whitening": 3, "rectifier": "abs"},
    {"contrast": 3, "rectifier": "none", "augment": "flip", "test_views": "flip"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["roots", "both", "blocks", "prepared", "views"])
def test_a_network_is_trained_saved_and_gone_on_with(blobs, tmp_path, options):
    images, labels = blobs[0][:90], blobs[1][:90]
    config = make_config(**BASE, **options)
    compute = ComputeOptions(device="cpu")
    network, history = train(images, labels, config, test=(images[:30], labels[:30]), compute=compute)
    assert history[-1].test_accuracy > 0.5
    outputs = network.outputs(images[:30])
    shown = float((outputs.argmax(1).numpy() == labels[:30]).mean())
    assert shown == pytest.approx(history[-1].test_accuracy)  # predicted as it was trained
    model = Model(network, history, tuple(str(c) for c in range(network.classes)), {})
    save_model(tmp_path / "model", model)
    loaded = load_model(tmp_path / "model").network
    assert torch.equal(loaded.outputs(images[:30]), outputs)
    begun, early = train(images, labels, make_config(**(BASE | {"layers": 2}), **options), compute=compute)
    further, _ = train(images, labels, config, compute=compute, start=(begun, early))
    assert torch.equal(further.outputs(images[:30]), outputs)


def test_images_may_be_prepared_by_several_workers_shares(blobs):
    from rescnet.training.prepared import learn_preparation

    from rescnet.stages.images import ValueRange
    from rescnet.training.distributed.workers import Workers
    from rescnet.training.stores.store import DeviceStore

    images = torch.from_numpy(np.ascontiguousarray(blobs[0][:50]))
    store = DeviceStore(tuple(images.shape), images.dtype, images.device, given=images)
    config = make_config(**BASE, contrast=3, whitening=3)
    found = learn_preparation(store, ValueRange.of(images.double()), config, Workers(), 0, 50)
    part = DeviceStore((20, *images.shape[1:]), images.dtype, images.device, given=images[30:])
    other = learn_preparation(part, ValueRange.of(images[30:].double()), config, Workers(), 0, 20)
    assert found.weights.shape == other.weights.shape == (images.shape[1], images.shape[1], 3, 3)
    assert not torch.equal(found.weights, other.weights)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="choose an odd side"):
        NetworkConfig(whitening=4)
    with pytest.raises(ValueError, match="one pixel has none"):
        NetworkConfig(contrast=1)
    with pytest.raises(ValueError, match="has a size twice"):
        NetworkConfig(more_block_sizes=(8, 8))
    with pytest.raises(ValueError, match="has block_size 16 too"):
        NetworkConfig(more_block_sizes=(16,))
    with pytest.raises(ValueError, match="matrix_root takes mean correlations"):
        NetworkConfig(matrix_root=True)
    with pytest.raises(ValueError, match="smaller than the window"):
        make_config(**BASE, contrast=13).check_images(3, (12, 12))
    with pytest.raises(ValueError, match="does not fit"):
        make_config(**BASE, more_block_sizes=(20,)).check_images(3, (12, 12))


def test_a_network_does_not_go_on_under_settings_its_layers_do_not_share(blobs):
    images, labels = blobs[0][:90], blobs[1][:90]
    begun = train(images, labels, make_config(**(BASE | {"layers": 1}), contrast=3))
    for change in ({}, {"contrast": 3, "stack_depth": 1}, {"contrast": 3, "filter_size": 2}):
        with pytest.raises(ValueError, match="but all layers share it: leave it as it was, or train anew"):
            train(images, labels, make_config(**BASE, **change), start=begun)


def test_a_prepared_network_knows_the_range_of_the_images_themselves(blobs, tmp_path):
    images, labels = blobs[0][:60], blobs[1][:60]
    network, history = train(images, labels, make_config(**(BASE | {"layers": 1}), contrast=3, whitening=3))
    assert float(network.stack.image_range.high.max()) == images.max() > float(network.layers[0].input_range.high.max())
    save_model(tmp_path / "model", Model(network, history, tuple("abcdef"[: network.classes]), {}))
    settings = tmp_path / "model" / "model.json"
    assert load_model(tmp_path / "model").network.stack.image_range.high.tolist() == network.stack.image_range.high.tolist()
    assert '"contrast": 3' in settings.read_text()
