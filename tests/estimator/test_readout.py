"""The estimator with a kernel readout: predicted with, pickled, saved, and grown."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from digits import IMAGES, LABELS
from estimator.small import classifier_with

from rescnet import load, save
from rescnet.network.probabilities import probabilities

pytestmark = [pytest.mark.usefixtures("one_cpu"), pytest.mark.slow]
OPTIONS = {"readout": "kernel", "stop_at_zero_error": False}
SMALL = {"preset": "paper", "filters": 6, "random_state": 0} | OPTIONS


@pytest.fixture(scope="module")
def digits():
    """Flat rows of all ten classes: 500 to train on, 200 to test."""
    rows = IMAGES.reshape(-1, 64).astype(float)
    return rows[:500], LABELS[:500], rows[500:700], LABELS[500:700]


@pytest.fixture(scope="module")
def fitted(digits):
    return classifier_with(n_layers=2, **SMALL).fit(*digits[:2])


def test_it_predicts_with_the_readout(fitted, digits):
    """Outputs are the network's with its readout, not those of its last layer."""
    _, _, X, y = digits
    *_, last = fitted.staged_predict_proba(X)
    assert fitted.model_.network.readout is not None
    assert not np.allclose(last, fitted.predict_proba(X))
    assert fitted.score(X, y) > 0.8


def test_it_survives_a_pickle_and_a_folder(fitted, digits, tmp_path):
    """Both ways of keeping it give the same outputs."""
    X = digits[2]
    outputs = fitted.decision_function(X)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).decision_function(X), outputs)
    save(fitted.model_, tmp_path / "model")
    network = load(tmp_path / "model").network
    assert np.allclose(network.outputs(X.reshape(-1, 1, 8, 8)).numpy(), outputs, atol=1e-9)


def test_early_stopping_fits_it_to_the_best_depth(digits, tmp_path):
    """It equals the readout of a run that ends at the best depth."""
    X, y, new, _ = digits
    classifier = classifier_with(n_layers=30, **SMALL, n_iter_no_change=2).fit(X, y)
    best = classifier.model_.history.best_layer()
    assert (
        classifier.n_layers_ == classifier.model_.history.readout.layers == best < len(classifier.model_.network.layers)
    )
    outputs = classifier.decision_function(new)
    shorter = classifier_with(n_layers=best, **SMALL, n_iter_no_change=best).fit(X, y)
    assert np.allclose(shorter.decision_function(new), outputs, rtol=0, atol=1e-9)  # images pass through once more
    save(classifier.model_, tmp_path / "model")
    network = load(tmp_path / "model").network
    assert len(network.layers) == best
    assert np.allclose(network.outputs(new.reshape(-1, 1, 8, 8)).numpy(), outputs, atol=1e-9)


def test_layers_added_later_are_those_of_one_run(digits):
    """``warm_start`` fits the readout of the grown network again."""
    X, y, new, _ = digits
    grown = classifier_with(n_layers=1, **SMALL, warm_start=True).fit(X, y)
    grown.set_params(n_layers=2).fit(X, y)
    once = classifier_with(n_layers=2, **SMALL).fit(X, y)
    assert np.array_equal(grown.decision_function(new), once.decision_function(new))


def test_probabilities_know_what_outputs_aim_at(fitted, digits):
    """With a readout outputs come near 1, whatever the layers' ceiling is, and it has a temperature of its own."""
    outputs = torch.as_tensor(fitted.decision_function(digits[2]))
    wanted = probabilities(outputs, 1.0, fitted.model_.network.readout.temperature)
    assert np.allclose(fitted.predict_proba(digits[2]), wanted.numpy())
