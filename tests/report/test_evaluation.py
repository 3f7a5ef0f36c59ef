from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.metrics import confusion_matrix

from rescnet.data import Dataset
from rescnet.report.evaluation import calibration, depths_to_show, evaluate, evaluation_images, margins


def test_predictions_of_all_layers(evaluation, model, dataset):
    images = dataset.test.images
    assert evaluation.split == "test"
    for layer in range(1, 6):
        np.testing.assert_array_equal(evaluation.predictions[layer - 1], model.network.predict_indices(images, layer))
    np.testing.assert_allclose(evaluation.probabilities, model.predict_proba(images))
    np.testing.assert_array_equal(evaluation.final, model.network.predict_indices(images))
    assert evaluation.accuracy[-1] == model.history[-1].test_accuracy


def test_validation_images_without_test_images(model, dataset):
    split, images = evaluation_images(model, Dataset("blobs", dataset.train, dataset.validation))
    assert split == "validation" and images is dataset.validation


def test_confusion_and_changes(evaluation, dataset):
    labels = dataset.test.labels
    for layer in (1, 5):
        predictions = evaluation.predictions[layer - 1]
        np.testing.assert_array_equal(evaluation.confusion(predictions), confusion_matrix(labels, predictions))
    changes = evaluation.changes()
    for layer in range(2, 6):
        before, after = evaluation.correct[layer - 2], evaluation.correct[layer - 1]
        assert changes["corrected"][layer - 1] == sum(b < a for b, a in zip(before, after, strict=True))
        assert changes["newly_wrong"][layer - 1] == sum(b > a for b, a in zip(before, after, strict=True))
    net = np.subtract(changes["corrected"], changes["newly_wrong"])
    assert np.cumsum(net).tolist() == evaluation.correct.sum(1).tolist()


def test_layers_after_those_used(model, dataset):
    short = replace(model, network=replace(model.network, used_layers=2))
    evaluation = evaluate(short, *evaluation_images(short, dataset))
    assert len(evaluation.predictions) == 5 and evaluation.depth == 2
    np.testing.assert_array_equal(evaluation.final, model.network.predict_indices(dataset.test.images, 2))
    summary = evaluation.summary(3)
    assert summary["accuracy"] == model.history[1].test_accuracy == evaluation.accuracy[1]
    assert summary["majority"] == np.bincount(dataset.test.labels).max() / len(dataset.test)
    assert [each["layer"] for each in summary["confusions"]] == [1, 2, 3, 4, 5]


def test_calibration():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 40_000)
    probabilities, labels = np.stack([confidence, 1 - confidence], 1), (rng.random(40_000) > confidence).astype(int)
    fair = calibration(probabilities, labels)
    assert fair["error"] < 0.02 and [part["bin"] for part in fair["bins"]] == [5, 6, 7, 8, 9]
    assert sum(part["images"] for part in fair["bins"]) == 40_000
    sure = calibration(np.array([[1.0, 0.0]] * 4), np.array([0, 0, 0, 1]))
    assert sure["error"] == 0.25 and sure["bins"][0] == {"bin": 9, "images": 4, "confidence": 1.0, "accuracy": 0.75}


def test_margins():
    rng = np.random.default_rng(1)
    outputs, labels = rng.normal(size=(2, 7, 4)), rng.integers(0, 4, 7)
    expected = [[row[c] - max(np.delete(row, c)) for row, c in zip(part, labels, strict=True)] for part in outputs]
    np.testing.assert_allclose(margins(outputs, labels), expected)


def test_depths_to_show():
    assert depths_to_show(4, 2, 40) == [1, 2, 3, 4]
    deep = depths_to_show(937, 700, 40)
    assert {1, 700, 937} <= set(deep) and len(deep) <= 41 and deep == sorted(deep)
    assert depths_to_show(937, 700, 3) == [1, 700, 937]


def test_progress(model, dataset, monkeypatch):
    """Reading the images takes most of a report's time, so it is shown from the start."""
    monkeypatch.setattr("rescnet.report.evaluation.CHUNKS", 1)
    monkeypatch.setattr("rescnet.network.stack.LayerStack.chunk", 50)
    seen, images = [], len(dataset.test)
    evaluate(model, *evaluation_images(model, dataset), lambda *step: seen.append(step))
    assert seen == [(min(50 * step, images), images) for step in range(1, -(-images // 50) + 1)] and len(seen) > 1
