"""``sample_weight``, ``class_weight``, and options in the configuration."""

from __future__ import annotations

import numpy as np
import pytest
from estimator.small import classifier_with

from rescnet import Config, ResCNetClassifier
from rescnet.network.history import StopReason

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {
    "preset": "paper",
    "n_layers": 2,
    "filters": 4,
    "bank": "dct",
    "random_state": 0,
    "stop_at_zero_error": False,
}


def fit(images, labels, sample_weight=None, **parameters):
    return classifier_with(**(SMALL | parameters)).fit(images, labels, sample_weight)


def test_sample_weights_are_repeated_images(digits):
    (images, labels), (test, _) = digits
    images, labels = images[:90], labels[:90]
    weights = np.arange(90) % 5 % 3
    repeated = fit(images.repeat(weights, 0), labels.repeat(weights)).decision_function(test)
    np.testing.assert_allclose(fit(images, labels, weights).decision_function(test), repeated, atol=1e-8)
    np.testing.assert_allclose(fit(images, labels, weights.tolist()).decision_function(test), repeated, atol=1e-8)
    assert abs(fit(images, labels).decision_function(test) - repeated).max() > 1e-3
    np.testing.assert_array_equal(
        fit(images, labels, np.ones(90)).decision_function(test), fit(images, labels).decision_function(test)
    )


def test_a_class_without_weight_is_left_out(digits):
    (images, labels), (test, _) = digits
    for classifier in (fit(images, labels, labels != 3), fit(images, labels, class_weight={3: 0})):
        np.testing.assert_array_equal(classifier.classes_, [0, 1, 2])
        assert classifier.model_.network.classes == 3
        np.testing.assert_array_equal(
            classifier.predict(test), fit(images[labels < 3], labels[labels < 3]).predict(test)
        )


def test_class_weights_multiply_sample_weights(digits):
    (images, labels), (test, _) = digits
    few = np.flatnonzero((labels > 0) | (np.arange(len(labels)) % 6 == 0))  # a sixth of the zeros
    images, labels = images[few], labels[few]
    counts = np.bincount(labels)
    balanced = fit(images, labels, class_weight="balanced").decision_function(test)
    by_hand = fit(images, labels, (len(labels) / (4 * counts))[labels]).decision_function(test)
    np.testing.assert_allclose(balanced, by_hand, atol=1e-8)
    by_name = dict(enumerate(1 / counts))
    np.testing.assert_allclose(fit(images, labels, class_weight=by_name).decision_function(test), balanced, atol=1e-8)
    weights = 1 + np.arange(len(labels)) % 2
    repeated = fit(images.repeat(weights, 0), labels.repeat(weights), class_weight="balanced").decision_function(test)
    weighted = fit(images, labels, weights, class_weight="balanced").decision_function(test)
    np.testing.assert_allclose(weighted, repeated, atol=1e-8)
    assert balanced[:, 0].mean() > fit(images, labels).decision_function(test)[:, 0].mean()


def test_weights_with_early_stopping_and_in_the_score(digits):
    (images, labels), (test, truth) = digits
    weights = 1.0 * (np.arange(len(labels)) % 3)
    stopped = fit(images, labels, weights, n_layers=12, n_iter_no_change=1, validation_fraction=0.25)
    assert stopped.model_.history.stopped is StopReason.PATIENCE
    assert len(stopped._held) == pytest.approx(0.25 * np.count_nonzero(weights), abs=4)
    right = stopped.predict(test) == truth
    assert stopped.score(test, truth, truth + 1) == pytest.approx(np.average(right, weights=truth + 1))


def test_bad_weights_are_called_sample_weight(digits):
    (images, labels), _ = digits
    with pytest.raises(ValueError, match=r"^sample_weight must be finite and at least 0, got -1\.$"):
        fit(images[:90], labels[:90], -np.ones(90))


def test_options_of_parameters_may_be_in_the_config(digits):
    (images, labels), _ = digits
    given = Config(layers=1, filters=3, seed=9, block_sizes=[5], patience=2)
    classifier = ResCNetClassifier(config=given).fit(images, labels)
    config = classifier.model_.network.config
    assert (config.layers, config.filters, config.seed, config.block_sizes, config.patience) == (1, 3, 9, (5,), 2)
    assert classifier._held is not None and classifier.model_.history[0].validation_accuracy is not None
