from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from rescnet.report.evaluation import depths_to_show, evaluate, margins
from rescnet.report.model_view import images_to_show
from rescnet.report.pick_images import select


@pytest.fixture(scope="module")
def evaluation(model, dataset):
    return evaluate(model.network, images_to_show(model, dataset))


def test_answers_of_all_layers_come_from_one_pass(evaluation, model, dataset):
    assert evaluation.shown.split == "test"
    for layer in range(1, 6):
        np.testing.assert_array_equal(evaluation.answers[layer - 1], model.network.predict(dataset.test.images, layer))
    np.testing.assert_allclose(evaluation.outputs, model.network.outputs(dataset.test.images), atol=1e-5)
    assert evaluation.accuracy[-1] == model.history[-1].test_accuracy


def test_validation_images_stand_in_for_absent_test_images(model, dataset):
    from rescnet.data import Dataset

    shown = images_to_show(model, Dataset("blobs", dataset.train, dataset.validation))
    assert shown.split == "validation" and shown.images is dataset.validation


def test_confusion_and_changes_against_loops(evaluation, dataset):
    labels = dataset.test.labels
    for layer in (1, 5):
        np.testing.assert_array_equal(
            evaluation.confusion(layer), confusion_matrix(labels, evaluation.answers[layer - 1])
        )
    changes = evaluation.changes()
    for layer in range(2, 6):
        before, after = evaluation.right[layer - 2], evaluation.right[layer - 1]
        assert changes["right"][layer - 1] == sum(b < a for b, a in zip(before, after, strict=True))
        assert changes["wrong"][layer - 1] == sum(b > a for b, a in zip(before, after, strict=True))
    assert np.cumsum(np.subtract(changes["right"], changes["wrong"])).tolist() == evaluation.right.sum(1).tolist()


def test_margins_against_a_loop():
    rng = np.random.default_rng(1)
    outputs, labels = rng.normal(size=(2, 7, 4)), rng.integers(0, 4, 7)
    wanted = [[row[c] - max(np.delete(row, c)) for row, c in zip(part, labels, strict=True)] for part in outputs]
    np.testing.assert_allclose(margins(outputs, labels), wanted)


def test_groups_hold_what_they_say(evaluation):
    right, margin = evaluation.right, evaluation.margins
    groups = {group.key: group for group in select(evaluation, 4)}
    everyone = {group.key: group for group in select(evaluation, 10**6)}
    tests = {
        "corrected": lambda i: right[-1][i] and not right[0][i],
        "spoiled": lambda i: right[0][i] and not right[-1][i],
        "wavering": lambda i: right[0][i] and right[-1][i] and not right[:, i].all(),
        "wrong": lambda i: not right[-1][i],
        "easy": lambda i: right[:, i].all(),
    }
    assert set(everyone["wrong"].images) | set(everyone["easy"].images) <= set(range(len(margin)))
    for key, group in groups.items():
        assert 0 < len(group.images) <= 4
        assert all(tests[key](index) for index in everyone[key].images)
        assert group.total == len(everyone[key].images) == sum(map(tests[key], range(len(margin))))
        assert group.images == everyone[key].images[:4]
    assert set().union(*(group.images for group in everyone.values())) == set(range(len(margin)))
    worst = everyone["wrong"].images
    assert margin[worst].tolist() == sorted(margin[worst].tolist())
    easiest = groups["easy"].images
    assert len({evaluation.labels[index] for index in easiest}) == len(easiest)  # classes in turn


def test_depths_hold_the_first_the_chosen_and_the_last():
    assert depths_to_show(4, 2, 40) == [1, 2, 3, 4]
    deep = depths_to_show(937, 700, 40)
    assert {1, 700, 937} <= set(deep) and len(deep) <= 41 and deep == sorted(deep)
    assert depths_to_show(937, 700, 3) == [1, 700, 937]
