"""Configuration, figures of the first screen, and the training record."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from rescnet import NetworkConfig, make_config
from rescnet.formatting import left_out_interval, show_bytes, wilson_interval
from rescnet.network.history import History, ReadoutRecord
from rescnet.report.summary import (
    about_rows,
    accuracy_curves,
    accuracy_intervals,
    best_depth,
    notes,
    rebuilt_command,
    seconds_of,
    settings,
    summarise,
    training_record,
)


def test_differing_options(model):
    found = settings(model, "blobs")
    assert found["base"] == "the defaults" and found["rebuilt"]
    differing = {row["name"]: (row["value"], row["base"]) for row in found["rows"] if row["differs"]}
    assert differing == {
        "layers": ("5", "20"),
        "filters": ("6", "50"),
        "block_sizes": ("4", "16"),
        "block_stride": ("2", "4"),
        "pyramid": ("2, 1", "4, 2, 1"),
        "ridge": ("0.5", "0.1"),
        "stop_at_zero_error": ("false", "true"),
    }


def test_rebuilt_command():
    config = make_config("digits", layers=12, stop_at_zero_error=False, bank="3 pca + 1 stacked-lda", pyramid=(3, 1))
    words = shlex.split(rebuilt_command(config, make_config("digits"), "digits", "digits"))
    assert words[:3] == ["rescnet", "train", "digits"]
    options: dict[str, object] = {}
    flags = iter(words[3:])
    for flag in flags:
        name = flag[2:].replace("-", "_")
        if name.startswith("no_"):
            options[name[3:]] = False
        else:
            options[name] = next(flags)
    assert make_config("digits", **options) == config


def test_recorded_command_and_preset(model):
    found = settings(replace(model, about={"command": ["rescnet", "train", "my set"], "preset": "cifar10"}), "digits")
    assert found["command"] == "rescnet train 'my set'" and not found["rebuilt"]
    assert found["base"] == "the preset cifar10"


def test_increased_ridge(model):
    records = [replace(record, ridge=5.0 if record.layer == 3 else 0.5) for record in model.history]
    assert training_record(replace(model, history=History(records)))["retries"] == [[3, 5.0]]
    assert training_record(model)["retries"] == []


def test_figures(model):
    features = NetworkConfig.features(model.network.config, (12, 12))
    expected = 6 * 27 + 4 * 6 * 9 * 9 + 5 * (6 + 12 * (features + 1))
    figures = summarise(model, None, None)
    assert (figures["parameters"], figures["size"]) == (expected, show_bytes(4 * expected))
    assert best_depth(model) == model.history.best_layer()
    rows = about_rows({"a_b": {"c": 1, "none": None}, "list": [1, 2], "empty": ""})
    assert rows == [["a b: c", "1"], ["list", "1, 2"]]


def test_layers_after_those_used_are_noted(model):
    short = replace(model, network=replace(model.network, depth=2))
    assert notes(short, None) == ["The network was trained to 5 layers. Predictions use the first 2."]
    assert summarise(short, None, None)["used"] == 2 and summarise(short, None, None)["layers"] == 5


def test_leave_one_out_accuracy(model):
    assert summarise(model, None, None)["left_out"] is None
    history = replace(model.history, readout=ReadoutRecord(loo_accuracy=0.9, images=200))
    found = summarise(replace(model, history=history), None, None)["left_out"]
    assert found == {"accuracy": 0.9, "images": 200, "interval": left_out_interval(0.9, 200)}


def test_all_seconds(model):
    history = replace(model.history, readout=ReadoutRecord(seconds=7.5))
    parts = seconds_of(replace(model, history=history, about={"loading_seconds": 1.25}))
    layers = sum(record.total_seconds for record in model.history)
    assert parts == {"loading": 1.25, "layers": pytest.approx(layers, abs=1e-4), "readout": 7.5}
    assert seconds_of(model).keys() == {"layers"}


def test_intervals_where_the_number_of_images_is_known(model, evaluation):
    curves = accuracy_curves(model, evaluation)
    found = accuracy_intervals(model, curves, evaluation)
    assert found.keys() == {"test"} and len(found["test"]) == 5
    assert found["test"][2] == pytest.approx(wilson_interval(curves["test"][2], len(evaluation.labels)), abs=1e-5)
    counted = replace(model, about={"images": {"train": 120, "validation": 50}})
    assert accuracy_intervals(counted, curves, None).keys() == {"validation"}
