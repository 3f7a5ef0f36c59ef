"""Features of a fitted classifier for other estimators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from estimator.small import classifier_with
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rescnet.estimator import classifier as estimator

pytestmark = pytest.mark.usefixtures("one_thread")
OPTIONS = {"stop_at_zero_error": False}
SMALL = {"preset": "paper", "n_layers": 3, "filters": 8, "bank": "pca", "random_state": 0} | OPTIONS


@pytest.fixture(scope="module")
def fitted(digits):
    return classifier_with(**SMALL).fit(*digits[0])


def test_features_serve_another_classifier(digits, fitted):
    (images, labels), (test, truth) = digits
    pipeline = make_pipeline(classifier_with(**SMALL), StandardScaler(), LogisticRegression(max_iter=500))
    assert pipeline.fit(images, labels).score(test, truth) > 0.95
    np.testing.assert_allclose(pipeline[0].transform(test), fitted.transform(test))


def test_each_feature_has_a_sign_and_a_sum(digits, fitted, monkeypatch):
    monkeypatch.setattr(estimator, "FEATURES", 60)
    test, stack = digits[1][0][:20], fitted.model_.network.stack
    found = fitted.transform(test).reshape(20, 3, 20)
    signs = fitted._signs().double()
    np.testing.assert_allclose(signs.abs().numpy(), (20 / signs.shape[1]) ** 0.5, rtol=1e-6)
    assert 0.4 < float((signs > 0).double().mean()) < 0.6
    for layer, step in enumerate(stack.steps(fitted.model_.network.layers[0].weights.new_tensor(test)[:, None])):
        for place in range(20):
            wanted = (step.features * signs[layer])[:, place::20].sum(1)
            np.testing.assert_allclose(found[:, layer, place], wanted.numpy(), atol=1e-6)


def test_width_names_and_data_frames(digits, fitted):
    test = digits[1][0]
    features = fitted.transform(test)
    assert features.shape == (len(test), len(fitted.get_feature_names_out()))
    assert fitted.get_feature_names_out()[:2].tolist() == ["rescnetclassifier0", "rescnetclassifier1"]
    many = classifier_with(**SMALL | {"n_layers": 2, "filters": 16}).fit(*digits[0])
    assert many.transform(test).shape == (len(test), 1024)
    framed = classifier_with(**SMALL).set_output(transform="pandas").fit(*digits[0]).transform(test)
    assert isinstance(framed, pd.DataFrame)
    assert framed.columns.tolist() == fitted.get_feature_names_out().tolist()
    np.testing.assert_array_equal(framed.to_numpy(), features)


def test_features_follow_the_depth_that_is_used(digits):
    (images, labels), _ = digits
    early = classifier_with(**SMALL | {"n_layers": 12, "n_iter_no_change": 1}).fit(images, labels)
    assert early.n_layers_ < len(early.model_.network.layers)
    assert early.transform(images).shape[1] == early._n_features_out == early.n_layers_ * early._sketch_size
