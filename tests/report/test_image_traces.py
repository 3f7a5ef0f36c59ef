from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from rescnet.report.image_traces import (
    MAX_MAPS,
    ImageGroup,
    classes_to_draw,
    describe_changes,
    explain_image,
    images_to_explain,
    pick_images,
    trace_image,
)

pytestmark = pytest.mark.slow

NAMES = ["ant", "bee", "cat", "dog"]


def test_groups(evaluation):
    correct, margin = evaluation.correct, evaluation.margins
    groups = {group.key: group for group in pick_images(evaluation, 4)}
    complete = {group.key: group for group in pick_images(evaluation, 10**6)}
    rules = {
        "corrected": lambda i: correct[-1][i] and not correct[0][i],
        "newly_wrong": lambda i: correct[0][i] and not correct[-1][i],
        "unstable": lambda i: correct[0][i] and correct[-1][i] and not correct[:, i].all(),
        "wrong": lambda i: not correct[-1][i],
        "easy": lambda i: correct[:, i].all(),
    }
    assert set(complete["wrong"].images) | set(complete["easy"].images) <= set(range(len(margin)))
    for key, group in groups.items():
        assert 0 < len(group.images) <= 4
        assert all(rules[key](index) for index in complete[key].images)
        assert group.total == len(complete[key].images) == sum(map(rules[key], range(len(margin))))
        assert group.images == complete[key].images[:4]
    assert set().union(*(group.images for group in complete.values())) == set(range(len(margin)))
    wrong = complete["wrong"].images
    assert margin[wrong].tolist() == sorted(margin[wrong].tolist())
    easy = groups["easy"].images
    assert len({evaluation.labels[index] for index in easy}) == len(easy)  # classes are interleaved


def test_trace():
    outputs = np.array(
        [[0.3, 0.1, 0, 0], [0.3, 0.2, 0.4, 0], [0.1, 0.5, 0.4, 0], [0.1, 0.2, 0.4, 0], [0.1, 0.9, 0.4, 0]]
    )
    trace = trace_image(outputs.astype(np.float32), 1, NAMES, 0.8)
    assert (trace["label"], trace["prediction"]) == (1, 1)
    assert trace["runs"] == [(1, 0), (2, 2), (3, 1), (4, 2), (5, 1)]
    assert trace["changes"] == [
        ("wrong", "Layer 1 predicts ant, which is wrong."),
        ("wrong", "Layer 2 changes ant to cat, still wrong."),
        ("correct", "Layer 3 changes cat to bee, which is correct."),
        ("wrong", "Layer 4 changes bee to cat, which is wrong."),
        ("correct", "Layer 5 changes cat to bee, which is correct."),
        ("correct", "After layer 5 the prediction is bee: correct, with a margin of 0.50."),
    ]
    assert trace["outputs"][1] == [1000, 2000, 5000, 2000, 9000]
    assert trace["margin"] == [-2000, -2000, 1000, -2000, 5000]
    weights = np.exp(outputs[0] / 0.04)
    assert [line[0] for line in trace["probabilities"]] == np.rint(10_000 * weights / weights.sum()).tolist()
    assert trace["mean"] == [1000, 2250, 2500, 1750, 3500]


def test_the_map_is_that_of_an_explanation(model, evaluation, report_data, dataset):
    data = report_data(model, dataset)
    shown = data["images"][0]
    image = evaluation.images.images[shown["index"]]
    why = model.explain(image)
    assert shown["map"] == explain_image(model, image)
    assert shown["map"]["class"] == why.shown[0] and len(shown["map"]["nearest"]) == len(why.nearest)
    assert sum(shown["map"]["sums"]) == pytest.approx(why.outputs.max(), abs=2e-4)
    assert shown["map"]["sums"][0] > 0 > shown["map"]["sums"][1]


def test_deep_networks_explain_fewer_images(model):
    groups = [ImageGroup(key, "", "", images, 9) for key, images in (("a", [1, 2, 3]), ("b", [2, 5]))]
    assert images_to_explain(groups, model.network) == [1, 2, 5, 3]  # the first of each group first
    deep = replace(model.network, used_layers=MAX_MAPS // 2)
    assert images_to_explain(groups, deep) == [1, 2]
    assert images_to_explain(groups, replace(deep, used_layers=900)) == [1]


def test_many_changes_are_shortened():
    runs = [[layer, layer % 2] for layer in range(1, 31)]
    changes = describe_changes(runs, 1, 30, -0.2, NAMES)
    assert len(changes) == 10
    assert changes[4] == ("", "… 22 more changes …")
    assert changes[-2][1] == "Layer 30 changes bee to ant, which is wrong."
    assert changes[-1] == ("wrong", "After layer 30 the prediction is ant: wrong, bee is 0.20 behind.")


def test_trace_of_a_deep_network_is_small():
    rng = np.random.default_rng(2)
    outputs = rng.normal(size=(937, 100)).cumsum(0).astype(np.float32) / 100
    trace = trace_image(outputs, 57, [str(number) for number in range(100)], 0.8)
    assert 57 in trace["classes"] and outputs[-1].argmax() in trace["classes"]
    assert len(trace["classes"]) == 10
    assert trace["layers"][0] == 1 and trace["layers"][-1] == 937 and len(trace["layers"]) == 200
    assert len(json.dumps(trace)) < 40_000


def test_true_class_is_always_drawn():
    outputs = np.zeros((3, 30), np.float32)
    outputs[:, :12] = np.arange(12)
    assert 29 in classes_to_draw(outputs, 29)
