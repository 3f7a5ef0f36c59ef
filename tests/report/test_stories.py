from __future__ import annotations

import json

import numpy as np

from rescnet.report.image_traces import classes_to_draw, in_words, tell

NAMES = ["ant", "bee", "cat", "dog"]


def test_a_story_tells_the_layers_that_turned_the_answer():
    staged = np.array(
        [[0.3, 0.1, 0, 0], [0.3, 0.2, 0.4, 0], [0.1, 0.5, 0.4, 0], [0.1, 0.2, 0.4, 0], [0.1, 0.9, 0.4, 0]]
    )
    story = tell(staged.astype(np.float32), 1, NAMES, 0.8)
    assert story["runs"] == [[1, 0], [2, 2], [3, 1], [4, 2], [5, 1]]
    assert story["told"] == [
        ("wrong", "Layer 1 answered ant, which is wrong."),
        ("wrong", "Layer 2 turned ant into cat, still wrong."),
        ("right", "Layer 3 turned cat into bee, which is right."),
        ("wrong", "Layer 4 turned bee into cat, which is wrong."),
        ("right", "Layer 5 turned cat into bee, which is right."),
        ("right", "After layer 5 the answer is bee, right by a lead of 0.50."),
    ]
    assert story["outputs"][1] == [1000, 2000, 5000, 2000, 9000]
    assert story["lead"] == [-2000, -2000, 1000, -2000, 5000]
    weights = np.exp(staged[0] / 0.04)
    assert [line[0] for line in story["probabilities"]] == np.rint(10_000 * weights / weights.sum()).tolist()
    assert story["mean"] == [1000, 2250, 2500, 1750, 3500]


def test_many_changes_are_told_in_short():
    runs = [[layer, layer % 2] for layer in range(1, 31)]
    told = in_words(runs, 1, 30, -0.2, NAMES)
    assert len(told) == 10
    assert told[4] == ("", "… 22 more changes …")
    assert told[-2][1] == "Layer 30 turned bee into ant, which is wrong."
    assert told[-1] == ("wrong", "After layer 30 the answer is ant, wrong: bee is 0.20 behind.")


def test_a_deep_network_of_many_classes_keeps_a_story_small():
    rng = np.random.default_rng(2)
    staged = rng.normal(size=(937, 100)).cumsum(0).astype(np.float32) / 100
    story = tell(staged, 57, [str(number) for number in range(100)], 0.8)
    assert 57 in story["classes"] and staged[-1].argmax() in story["classes"]
    assert len(story["classes"]) == 10
    assert story["layers"][0] == 1 and story["layers"][-1] == 937 and len(story["layers"]) == 200
    assert len(json.dumps(story)) < 40_000


def test_the_true_class_is_drawn_even_if_never_answered():
    staged = np.zeros((3, 30), np.float32)
    staged[:, :12] = np.arange(12)
    assert 29 in classes_to_draw(staged, 29)
