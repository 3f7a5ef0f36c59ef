from __future__ import annotations

import numpy as np
from sklearn.metrics import confusion_matrix

from rescnet.data import Dataset
from rescnet.report.evaluation import depths_to_show, evaluation_images, margins


def test_predictions_of_all_layers(evaluation, model, dataset):
    images = dataset.test.images
    assert evaluation.source.split == "test"
    for layer in range(1, 6):
        np.testing.assert_array_equal(evaluation.predictions[layer - 1], model.network.predict(images, layer))
    np.testing.assert_allclose(evaluation.outputs, model.network.outputs(images), atol=1e-5)
    assert evaluation.accuracy[-1] == model.history[-1].test_accuracy


def test_validation_images_without_test_images(model, dataset):
    found = evaluation_images(model, Dataset("blobs", dataset.train, dataset.validation))
    assert found.split == "validation" and found.images is dataset.validation


def test_confusion_and_changes(evaluation, dataset):
    labels = dataset.test.labels
    for layer in (1, 5):
        np.testing.assert_array_equal(
            evaluation.confusion(layer), confusion_matrix(labels, evaluation.predictions[layer - 1])
        )
    changes = evaluation.changes()
    for layer in range(2, 6):
        before, after = evaluation.correct[layer - 2], evaluation.correct[layer - 1]
        assert changes["corrected"][layer - 1] == sum(b < a for b, a in zip(before, after, strict=True))
        assert changes["newly_wrong"][layer - 1] == sum(b > a for b, a in zip(before, after, strict=True))
    net = np.subtract(changes["corrected"], changes["newly_wrong"])
    assert np.cumsum(net).tolist() == evaluation.correct.sum(1).tolist()


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
