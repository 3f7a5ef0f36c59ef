"""Forged models with valid checksums: one clean error each, and no NaN in an answer."""

from __future__ import annotations

import io
import sys
from hashlib import sha256

import pytest
from safetensors.torch import load, save
from saving.tiny_model import change_history, change_model_json, make_model
from typer.testing import CliRunner

from rescnet.cli import app, main
from rescnet.saving import ModelFileError, ModelFolder, ModelWriter, layout, load_model, read_run, save_model

DEEP = [[]]
for _ in range(900):
    DEEP = [DEEP]


def set_fact(folder, name, value):
    *parents, last = name.split(".")

    def change(content):
        place = content
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value

    change_model_json(folder, change)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((f"about.{name}", 5) for name in ("versions", "images", "compute", "preprocessing", "readout", "held_out")),
        *((f"about.{name}", []) for name in ("dataset", "command", "source", "root", "preset", "stopped")),
        ("about.training_files", [5]),
        ("about.versions", None),
        ("about.versions.torch", 2),
        ("about.images.train", "many"),
        ("about.preprocessing.low", "0"),
        ("about.preprocessing.low", float("nan")),
        ("about.preprocessing.high", 1e999),
        ("about.held_out", {"seed": 1}),
        ("about.held_out", {"fraction": "a", "limit": None, "seed": 0, "sha256": None}),
        ("about.used_layers", "3"),
        ("about.used_layers", 7),
        ("about.used_layers", True),
        ("about.readout", {"bytes": "5", "sha256": ""}),
        ("about.readout", {"layers": 9}),
        ("about.readout", {"bytes": 9}),
        ("about.readout", {"sha256": "", "layers": 2}),
        ("about.readout", {"bytes": 9, "sha256": ""}),
        ("about.images.train", 10**400),
        ("about.readout.record", {"seconds": "long"}),
        ("about.note", DEEP),
        ("sealed.layers", "3"),
        ("sealed", {"layers": 3}),
        ("rescnet", 4),
        ("config.filters", []),
        ("config.pyramid", 5),
        ("config.bank", 5),
        ("image_shape", [True, 8, 8]),
        ("class_names", [1, 2, 3]),
    ],
)
def test_a_forged_fact_is_one_clean_error(name, value, saved):
    set_fact(saved, name, value)
    with pytest.raises(ModelFileError) as error:
        load_model(saved)
    assert "\n" not in str(error.value) and str(saved) in str(error.value)
    done = CliRunner().invoke(app, ["info", str(saved)])
    assert done.exit_code == 2 and done.output.startswith("error: ")


def test_a_model_without_its_seal_is_refused(saved):
    change_model_json(saved, lambda content: content.pop("sealed"))
    with pytest.raises(ModelFileError, match="sealed must be given"):
        load_model(saved)


def test_info_of_layers_with_and_without_a_validation_accuracy(saved):
    change_history(saved, lambda lines: lines[0].update(validation_accuracy=1.0))
    change_history(saved, lambda lines: lines[1].update(test_accuracy=0.5))
    change_history(saved, lambda lines: lines[2].update(validation_accuracy=0.5, test_accuracy=0.5))
    done = CliRunner().invoke(app, ["info", str(saved)])
    assert done.exit_code == 0 and "–" in done.output


def test_names_that_no_terminal_can_show_are_escaped(saved, monkeypatch):
    change_model_json(saved, lambda content: content.update(class_names=["ant", "bee\ud800", "c"]))
    shown = io.TextIOWrapper(io.BytesIO(), "utf-8")
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "argv", ["rescnet", "info", str(saved)])
    with pytest.raises(SystemExit) as end:
        main()
    shown.flush()
    assert not end.value.code and rb"bee\ud800" in shown.buffer.getvalue()


def test_a_long_value_makes_no_long_message(saved):
    set_fact(saved, "config.scaling", "a" * 10**5)
    with pytest.raises(ModelFileError, match="scaling must be one of") as error:
        load_model(saved)
    assert len(str(error.value)) < 1100


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layer", 2),
        ("layer", "1"),
        ("train_accuracy", None),
        ("train_accuracy", "1"),
        ("validation_accuracy", []),
        ("rate", float("inf")),
        ("seconds", 3),
        ("seconds", {"update": "slow"}),
        ("memory", []),
        ("peak_memory", {}),
        ("bytes", "12"),
        ("bytes", True),
        ("bytes", 10**400),
        ("bytes", -1),
        ("sha256", 5),
    ],
)
def test_a_forged_record_is_one_clean_error(name, value, saved):
    change_history(saved, lambda lines: lines[0].update({name: value}))
    for read in (load_model, read_run):
        with pytest.raises(ModelFileError) as error:
            read(saved)
        assert "\n" not in str(error.value) and str(saved) in str(error.value)


def change_tensor(data, name, value):
    tensors = load(data)
    if callable(value):
        tensors[name] = value(tensors[name])
    else:
        tensors[name].view(-1)[0] = value
    return save({key: tensor.contiguous() for key, tensor in tensors.items()})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["weights", "bias", "head.weights", "head.bias", "input_range.low", "rate"])
def test_weights_that_are_not_finite_are_refused(name, value, saved):
    file = saved / layout.layer_name(2)
    data = change_tensor(file.read_bytes(), name, value)
    file.write_bytes(data)
    facts = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    change_history(saved, lambda lines: lines[1].update(facts))
    with pytest.raises(ModelFileError, match=rf"00002\.safetensors: '{name}' must be finite"):
        load_model(saved)


@pytest.fixture(scope="module")
def with_readout(one_cpu):
    return make_model(readout="kernel", head="ridge", loo_correction=True)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("coefficients", float("nan"), "'coefficients' must be finite"),
        ("scale", -1.0, "must not be negative"),
        ("temperature", 0.0, "must be positive"),
        ("scale", float("nan"), "'scale' must be finite"),
        ("loo_correction.centres", float("nan"), "'loo_correction.centres' must be finite"),
        ("encoder.centre", float("inf"), "'encoder.centre' must be finite"),
        ("codes.steps", float("nan"), "'codes.steps' must be finite"),
        ("coefficients", lambda tensor: tensor.int(), "'coefficients' must be torch.float32, got torch.int32"),
        ("codes", lambda tensor: tensor.float(), "'codes' must be torch.int8, got torch.float32"),
        ("codes", lambda tensor: tensor[:29], "'codes' must have shape (30, 29), got (29, 29)"),
        ("codes", lambda tensor: tensor[:, 0], "readout.safetensors is not a readout"),
        ("encoder.weights", lambda tensor: tensor[:2], "'encoder.weights' must have shape (3, "),
        ("encoder.projection", lambda tensor: tensor[:-1], "'encoder.projection' must have shape"),
        ("encoder.steps", lambda tensor: tensor[:-1], "'encoder.steps' must have shape (29,), got (28,)"),
        ("loo_correction.centres", lambda tensor: tensor[:, :2], "'loo_correction.centres' must have shape (30, 3)"),
    ],
)
def test_a_forged_readout_is_refused(name, value, words, with_readout, tmp_path):
    save_model(with_readout, tmp_path / "m")
    check_forged(name, value, words, tmp_path)


def check_forged(name, value, words, tmp_path):
    file = tmp_path / "m" / "readout.safetensors"
    data = change_tensor(file.read_bytes(), name, value)
    file.write_bytes(data)
    facts = ModelFolder.open(tmp_path / "m").about["readout"]
    facts |= {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    set_fact(tmp_path / "m", "about.readout", facts)
    with pytest.raises(ModelFileError) as error:
        load_model(tmp_path / "m")
    assert words in str(error.value) and "\n" not in str(error.value)


def test_unknown_compute_options_are_not_resumed(saved):
    for compute in ({"colour": "red"}, {"dtype": "int8"}):
        set_fact(saved, "about.compute", compute)
        with pytest.raises(ModelFileError, match="unknown compute options"):
            read_run(saved)


def test_facts_that_could_not_be_loaded_are_not_saved(model, tmp_path):
    for about in ({"images": 5}, {"note": DEEP}):
        with pytest.raises(ValueError, match="about"):
            ModelWriter(tmp_path / "m", model.network, model.class_names, about)
