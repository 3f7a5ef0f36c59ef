"""A network with the exact kernel readout, against scikit-learn's kernel ridge regression on all features."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from digits import IMAGES, LABELS
from scipy.spatial.distance import pdist
from sklearn.kernel_ridge import KernelRidge

from rescnet import ComputeOptions, load, make_config, save, train
from rescnet.model import Model
from rescnet.network.readout import ExactReadout
from rescnet.network.readout.exact import _factor, fit_exact
from rescnet.stages.augment import view_images
from rescnet.stages.residual import one_hot
from rescnet.training.data import TrainingData
from rescnet.training.memory_plan import Machine, check_readout_fits

DOUBLE = ComputeOptions(dtype="float64")
TRAINING, VALIDATION, TEST = slice(120), slice(300, 360), slice(400, 460)
pytestmark = pytest.mark.usefixtures("one_cpu")


def config_of(**options):
    return make_config("digits", **{"layers": 2, "filters": 4, "readout": "kernel-exact"} | options)


@cache
def trained(**options):
    """Return a network of two layers, trained on 120 digits, and its history."""
    held_out = {"validation": some(VALIDATION), "test": some(TEST)}
    return train(*some(TRAINING), config_of(**options), **held_out, compute=DOUBLE)


def some(part):
    return IMAGES[part], LABELS[part]


def mirrored(images):
    return images[..., ::-1].copy()


def layers_alone(network, images):
    """Return Ỹ of the layers."""
    return replace(network, readout=None).outputs(images).numpy()


@torch.inference_mode()
def all_features(network, images):
    """Return the features of all layers side by side, shape (n, layers·D)."""
    images, maps, found = torch.as_tensor(images), None, []
    for layer in network.layers:
        maps = network.stack.maps(layer, maps, images)
        found.append(network.stack.features(maps).numpy())
    return np.concatenate(found, axis=1)


def standardised(known, *others):
    """Return features as they are in units of those of the known images; constant ones are zero."""
    mean, deviation = known.mean(0), known.std(0)
    scale = np.where(deviation > 1e-9 * np.abs(mean), 1 / np.maximum(deviation, 1e-300), 0)
    return [(features - mean) * scale for features in (known, *others)]


def scale_of(config, known):
    """Return s: the width over the median squared distance, the lower one of an even number of pairs."""
    return config.kernel_width / np.quantile(pdist(known, "sqeuclidean"), 0.5, method="lower")


def residual_of(output, labels):
    return np.eye(10)[labels] - output


@pytest.mark.parametrize("options", [{}, {"kernel_width": 3.0, "kernel_ridge": 0.2}], ids=["default", "others"])
def test_the_readout_is_kernel_ridge_regression_of_what_the_layers_leave(options):
    """Its kernel is Gaussian in the standardised features of all layers together."""
    network, _ = trained(**options)
    (images, labels), (new, _) = some(TRAINING), some(TEST)
    known, features = standardised(all_features(network, images), all_features(network, new))
    scale = scale_of(network.config, known)
    assert network.readout.scale == pytest.approx(scale)
    regression = KernelRidge(alpha=network.config.kernel_ridge, kernel="rbf", gamma=scale)
    regression.fit(known, residual_of(layers_alone(network, images), labels))
    wanted = layers_alone(network, new) + regression.predict(features)
    np.testing.assert_allclose(network.outputs(new), wanted, atol=1e-8)
    assert np.abs(network.outputs(new).numpy() - layers_alone(network, new)).max() > 0.1


def test_a_mirrored_readout_is_regression_on_all_images_and_their_mirror_images():
    """Of twice as many equations, with twice the ridge: an image's coefficient is the sum of two equal ones.

    An image is then its own features followed by those of its mirror image, and the kernel is the plain Gaussian.
    """
    network, _ = trained(augment="flip")
    (images, labels), (new, _) = some(TRAINING), some(TEST)
    views = [all_features(network, part) for part in (images, mirrored(images), new, mirrored(new))]
    both, *views = standardised(np.concatenate(views[:2]), *views)
    assert len(both) == 240  # one mean and deviation for both views
    straight, crossed, features = (np.hstack([views[a], views[b]]) for a, b in ((0, 1), (1, 0), (2, 3)))
    scale = scale_of(network.config, straight)
    assert network.readout.scale == pytest.approx(scale)
    output, new_output = ((layers_alone(network, x) + layers_alone(network, mirrored(x))) / 2 for x in (images, new))
    regression = KernelRidge(alpha=2 * network.config.kernel_ridge, kernel="rbf", gamma=scale)
    regression.fit(np.concatenate([straight, crossed]), np.tile(residual_of(output, labels), (2, 1)))
    np.testing.assert_allclose(network.outputs(new), new_output + regression.predict(features), atol=1e-8)
    summed = regression.dual_coef_[:120] + regression.dual_coef_[120:]
    np.testing.assert_allclose(network.readout.coefficients, summed, atol=1e-8)


def test_predictions_are_the_mean_over_views():
    network, _ = trained()
    new, averaged = torch.as_tensor(IMAGES[TEST][:8]), network.averaged_over("flip")
    outputs = [network.outputs(view_images(new, view)) for view in averaged.config.views]
    torch.testing.assert_close(averaged.outputs(new), torch.stack(outputs).mean(0), rtol=0, atol=1e-9)


def test_too_little_memory_is_refused():
    with pytest.raises(ValueError, match="memory must be at least 8 TB for an exact kernel readout"):
        check_readout_fits(config_of(), data_of(10**6), 4, False, Machine(torch.device("cpu"), 40 * 10**9))


def data_of(count):
    """Return n digits that take no memory."""
    return TrainingData(torch.zeros(1, dtype=torch.uint8).expand(count, 1, 8, 8), torch.full((1,), 9).expand(count), {})


def test_several_processes_and_copies_are_refused():
    alone, two = (Machine(torch.device("cpu"), 10**12, count, count) for count in (1, 2))
    with pytest.raises(ValueError, match="readout must be 'kernel' or 'heads' with several processes, got 'kernel-ex"):
        check_readout_fits(config_of(), data_of(300), 8, False, two)
    check_readout_fits(config_of(), data_of(300), 8, False, alone)
    check_readout_fits(config_of(readout="kernel"), data_of(300), 8, False, two)


def test_products_of_images_that_are_decomposed_are_counted():
    """Only if there is a component per image: otherwise a subspace is found in less memory."""
    machine = Machine(torch.device("cpu"), 40 * 10**6)
    every, fewer = (config_of(readout="kernel", layers=20, readout_size=size) for size in (1000, 999))
    with pytest.raises(ValueError, match=r"at least 45\.6 MB for 1,000 components of a readout, one per image, got 40"):
        check_readout_fits(every, data_of(1000), 4, False, machine)
    check_readout_fits(fewer, data_of(1000), 4, False, machine)
    check_readout_fits(every, data_of(1000), 4, False, replace(machine, budget=46 * 10**6))
    with pytest.raises(ValueError, match="kernel_copies must be empty with readout 'kernel-exact'"):
        train(*some(TRAINING), config_of(kernel_copies="shift 1"))


def test_it_keeps_images_of_its_own_and_is_saved_with_them(tmp_path):
    """The history has the accuracies of its predictions. Fewer layers have no readout."""
    images, labels = (array.copy() for array in some(TRAINING))
    others = {"validation": some(VALIDATION), "test": some(TEST)}
    network, history = train(images, labels, config_of(loo_correction=True), **others, compute=DOUBLE)
    images[:] = 0
    assert isinstance(network.readout, ExactReadout) and torch.equal(
        network.readout.images, torch.as_tensor(IMAGES[TRAINING])
    )
    save(tmp_path / "m", Model(network, history, tuple("0123456789"), {}))
    read, outputs = load(tmp_path / "m").network, network.outputs(IMAGES[TEST])
    torch.testing.assert_close(read.outputs(IMAGES[TEST]), outputs, rtol=0, atol=1e-12)
    assert history.readout.test_accuracy == float((outputs.argmax(1).numpy() == LABELS[TEST]).mean())
    assert history.readout.validation_accuracy is not None and network.first_layers(1).readout is None
    assert network.nbytes - replace(network, readout=None).nbytes > IMAGES[TRAINING].nbytes


def test_prediction_is_refused_where_the_training_images_do_not_fit(monkeypatch):
    network, _ = trained()
    monkeypatch.setattr("rescnet.network.readout.exact.memory_budget", lambda *_: 10_000)
    with pytest.raises(ValueError, match=r"memory must hold .* the readout's 120 training images, .*, got 10 kB"):
        network.outputs(IMAGES[TEST])


def test_rounding_that_makes_a_kernel_indefinite_is_met_by_more_ridge():
    """As little as does, of 0.001 and ten times as much at every try."""
    right = torch.arange(6, dtype=torch.float64).view(3, 2)
    ones, eye = torch.ones(3, 3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    for matrix, ridge, needed in (
        (ones, 0.0, 1e-3),  # equal images
        (ones - 0.005 * eye, 0.0, 1e-2),
        (ones - 0.005 * eye, 4e-3, 4e-2),
        (ones - 0.005 * eye, 6e-3, 6e-3),
    ):
        factor, used = _factor(matrix.clone(), ridge)
        assert used == pytest.approx(needed)
        torch.testing.assert_close(
            torch.cholesky_solve(right, factor), torch.linalg.solve(matrix + needed * eye, right)
        )
    with pytest.raises(FloatingPointError, match="the kernel readout could not be solved"):
        _factor(ones * torch.nan, 0.01)


def test_weights_divide_the_ridge():
    """Where K·a = Y - Ỹ - ε·a/w holds, outputs of the training images lack ε·a/w."""
    network, _ = trained()
    images, labels = (torch.as_tensor(part) for part in some(TRAINING))
    weights = torch.linspace(0.5, 20, len(labels), dtype=torch.float64)
    readout = fit_exact(network.stack, images, labels, weights)
    missing = one_hot(labels, 10, torch.float64) - readout.outputs(network.stack, images)
    torch.testing.assert_close(missing, readout.ridge * readout.coefficients / weights[:, None], atol=1e-7, rtol=1e-5)


def test_a_run_passes_its_weights_on():
    weights = np.r_[np.full(60, 20.0), np.ones(60)]
    plain, weighted = (train(*some(TRAINING), config_of(layers=1, bank="pca"), weights=w)[0] for w in (None, weights))
    again = fit_exact(weighted.stack, *map(torch.as_tensor, some(TRAINING)))
    assert not torch.allclose(again.coefficients, weighted.readout.coefficients, rtol=1e-3)
    assert plain.readout.coefficients.shape == again.coefficients.shape
