"""Configuration, figures of the first screen, and the training record."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from rescnet import Config, NetworkConfig
from rescnet.base.intervals import left_out_interval, wilson_interval
from rescnet.base.text import show_bytes
from rescnet.config.choices import SOME_IMAGES
from rescnet.config.defaults import default_settings
from rescnet.network.history import History, ReadoutRecord
from rescnet.report.summary import (
    UNNAMED,
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


def with_options(model, images=None, augment="", **options):
    """Return the model as if its network were the default one for n images, with other options."""
    shape, mirrored = model.network.image_shape, augment == "flip"
    start = default_settings(shape, images or SOME_IMAGES, len(model.class_names), mirrored=mirrored)
    stack = replace(model.network.stack, config=NetworkConfig(**(start | options)))
    about = {"images": {"train": images}} if images else {}
    return replace(model, network=replace(model.network, stack=stack), about=about)


def differing(found):
    return {row["name"]: (row["value"], row["base"]) for row in found["rows"] if row["differs"]}


@pytest.mark.parametrize("images", [None, 300, 30_000])
@pytest.mark.parametrize("augment", ["", "flip"])
def test_differing_options(model, images, augment):
    """The default network differs in nothing, whatever its number of images and whether its trial added flips."""
    found = settings(with_options(model, images, augment), "blobs")
    assert found["base"] == "the default network" and differing(found) == {}
    assert shlex.split(found["command"]) == ["rescnet", "train", "blobs", "--augment", augment]
    changed = settings(with_options(model, images, augment, filters=6, readout="heads"), UNNAMED)
    assert differing(changed).keys() == {"filters", "readout"} and differing(changed)["filters"][0] == "6"
    assert shlex.split(changed["command"])[2] == "SOURCE"


def test_a_preset_is_no_data_set(model):
    """A model of the digits was not trained by the preset of that name, unless it says so."""
    assert settings(model, "digits")["base"] == "the default network"
    assert settings(replace(model, about={"preset": "paper"}), "digits")["base"] == "the preset paper"


@pytest.mark.parametrize("preset", ["digits", None])
def test_rebuilt_command(preset):
    facts = () if preset else ((3, 32, 32), 10, 500)
    changes = {"layers": 12, "stop_at_zero_error": True, "bank": "3 pca + 1 stacked-lda", "pyramid": (3, 2)}
    config, start = Config(preset, **changes).complete(*facts), Config(preset).complete(*facts)
    words = shlex.split(rebuilt_command(config, start, preset, "digits"))
    assert words[:3] == ["rescnet", "train", "digits"]
    options: dict[str, object] = {}
    flags = iter(words[3:])
    for flag in flags:
        name = flag[2:].replace("-", "_")
        options[name] = True if name == "stop_at_zero_error" else next(flags)
    assert options.pop("preset", None) == preset and (preset or options["augment"] == "")
    assert NetworkConfig(**(Config(preset).complete(*facts).to_dict() | options)) == config


def test_recorded_command_and_preset(model):
    found = settings(replace(model, about={"command": "rescnet train mine", "preset": "cifar10"}), "digits")
    assert found["command"] == "rescnet train mine" and not found["rebuilt"]
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
    short = replace(model, network=replace(model.network, used_layers=2))
    assert notes(short, None) == ["The network was trained to 5 layers. Predictions use the first 2."]
    assert summarise(short, None, None)["used"] == 2 and summarise(short, None, None)["layers"] == 5


def test_leave_one_out_accuracy(model):
    assert summarise(model, None, None)["left_out"] is None
    history = replace(model.history, readout=ReadoutRecord(loo_accuracy=0.9, images=200))
    found = summarise(replace(model, history=history), None, None)["left_out"]
    assert found == {"accuracy": 0.9, "images": 200, "interval": left_out_interval(0.9, 200)}


def test_all_seconds(model):
    history = replace(model.history, readout=ReadoutRecord(seconds=7.5))
    parts = seconds_of(replace(model, history=history))
    layers = sum(record.total_seconds for record in model.history)
    assert parts == {"layers": pytest.approx(layers, abs=1e-4), "readout": 7.5}
    assert seconds_of(model).keys() == {"layers"}


def test_intervals_where_the_number_of_images_is_known(model, evaluation):
    curves = accuracy_curves(model, evaluation)
    found = accuracy_intervals(model, curves, evaluation)
    assert found.keys() == {"test"} and len(found["test"]) == 5
    assert found["test"][2] == pytest.approx(wilson_interval(curves["test"][2], len(evaluation.labels)), abs=1e-5)
    counted = replace(model, about={"images": {"train": 120, "validation": 50}})
    assert accuracy_intervals(counted, curves, None).keys() == {"validation"}
