"""Models as folders: a load returns what was saved, or one clean error that names the file."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from saving.tiny_model import (
    NAMES,
    TINY,
    change_history,
    change_model_json,
    check_message,
    first_layers,
    signed,
    with_layers,
)
from train_network import train_network

from rescnet import NetworkConfig, ResCNetClassifier, __version__
from rescnet.family import FamilyClassifier
from rescnet.model import Model, describe_images, describe_run
from rescnet.network.history import StopReason
from rescnet.saving import (
    ModelFileError,
    ModelFolder,
    ModelWriter,
    check_place,
    layout,
    load_model,
    read_run,
    save_model,
)


def test_what_is_no_model_is_refused(model, tmp_path):
    train_result = (model.network, model.history)
    for given, words in (
        (model.network, "model must have labels, got a network"),
        (train_result, "must be a Model or a fitted ResCNetClassifier, got an object of type tuple"),
        ({"a": 1}, "must be a Model or a fitted ResCNetClassifier, got an object of type dict"),
        (ResCNetClassifier, "got the class ResCNetClassifier"),
        (FamilyClassifier(), "model must be a fitted ResCNetClassifier, got a FamilyClassifier"),
        (ResCNetClassifier(), "model must be a fitted ResCNetClassifier, got a ResCNetClassifier"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            save_model(given, tmp_path / "m")
    with pytest.raises(ValueError, match=r"^model must be the first argument .* Write rescnet\.save\(model, path\)\."):
        save_model(tmp_path / "m", model)
    with pytest.raises(ValueError, match="path must be a folder, got Model"):
        save_model(model, model)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_is_loaded_is_what_was_saved(model, saved, images):
    loaded = load_model(saved)
    assert torch.equal(loaded.network.outputs(images), model.network.outputs(images))
    assert loaded.network.config == model.network.config
    assert loaded.history == model.history
    assert loaded.class_names == NAMES
    assert loaded.about["preprocessing"]["colour"] == "grey"
    assert loaded.about["stopped"] == "all layers were added"
    double = load_model(saved, dtype=torch.float64).network
    assert double.layers[0].head.weights.dtype == torch.float64
    torch.testing.assert_close(double.outputs(images).float(), model.network.outputs(images), rtol=1e-3, atol=1e-4)


def test_nothing_but_json_and_safetensors_is_written(saved):
    files = sorted(str(file.relative_to(saved)) for file in saved.rglob("*") if file.is_file())
    assert files == ["history.jsonl", *(f"layers/0000{n}.safetensors" for n in (1, 2, 3)), "model.json"]


@pytest.mark.parametrize("head", ["ridge", "lda", "multiclass-lda"])
def test_every_head_and_float64_come_back(head, images, tmp_path):
    from rescnet import ComputeOptions

    config = NetworkConfig(**TINY | {"layers": 2}, head=head, stop_at_zero_error=False, first_filter_size=5)
    network, history = train_network(images, np.arange(30) % 3, config, compute=ComputeOptions(dtype="float64"))
    save_model(Model(network, history, NAMES), tmp_path / "m")
    assert torch.equal(load_model(tmp_path / "m").network.outputs(images), network.outputs(images))


def test_only_the_layers_asked_for_are_opened(model, saved, images):
    (saved / layout.layer_name(3)).unlink()
    loaded = load_model(saved, layers=2)
    assert len(loaded.network.layers) == len(loaded.history) == 2
    assert torch.equal(loaded.network.outputs(images), model.network.outputs(images, 2))
    with pytest.raises(ModelFileError) as error:
        load_model(saved)
    check_message(error, "00003.safetensors cannot be read (no such file or directory). Copy the model again")
    for wrong in (0, 4, -1):
        with pytest.raises(ValueError, match=f"layers must be between 1 and 3, got {wrong}"):
            load_model(saved, layers=wrong)


def test_an_existing_model_is_kept(model, saved):
    with pytest.raises(ModelFileError) as error:
        save_model(model, saved)
    check_message(
        error, "holds a model already. Use another folder, replace it (overwrite=True, --overwrite) or resume it"
    )


def test_nothing_of_anyone_else_is_overwritten(model, saved, tmp_path):
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(ModelFileError, match=r"must hold a model only, got 'notes.txt' too"):
        save_model(model, saved, overwrite=True)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("mine")
    with pytest.raises(ModelFileError, match="must be empty or a model of rescnet"):
        save_model(model, tmp_path / "thesis", overwrite=True)
    with pytest.raises(ModelFileError, match="must be a folder, got a file"):
        save_model(model, tmp_path / "thesis" / "chapter.txt", overwrite=True)
    with pytest.raises(ModelFileError, match=f"cannot be created in {tmp_path}"):
        check_place(tmp_path / "thesis" / "chapter.txt" / "model")
    (tmp_path / "empty").mkdir()
    save_model(model, tmp_path / "empty")
    assert len(load_model(tmp_path / "empty").history) == 3


def test_nothing_is_written_before_the_first_layer(model, tmp_path):
    writer = ModelWriter(tmp_path / "m", model.network, NAMES, {})
    writer.finish(None)
    assert writer.layers == 0 and not (tmp_path / "m").exists()
    with pytest.raises((ValueError, TypeError)):
        ModelWriter(tmp_path / "m", model.network, NAMES, {"when": float("nan")})


def test_a_run_that_ends_early_leaves_the_layers_finished(model, tmp_path, images):
    writer = ModelWriter(tmp_path / "m", model.network, NAMES, {})
    for layer, record in zip(model.network.layers[:2], model.history, strict=False):
        writer.add_layer(layer, record)
    with (tmp_path / "m" / "history.jsonl").open("ab") as file:
        file.write(b'{"layer": 3, "train_')
    writer.finish(StopReason.INTERRUPTED)
    folder = ModelFolder.open(tmp_path / "m")
    assert folder.sealed and len(folder.records) == 2
    assert folder.about["stopped"] == "it was interrupted"
    assert torch.equal(load_model(tmp_path / "m").network.outputs(images), model.network.outputs(images, 2))


def test_a_killed_run_leaves_the_layers_finished_and_a_torn_line_is_ignored(model, tmp_path, images):
    writer = ModelWriter(tmp_path / "m", model.network, NAMES, {})
    for layer, record in zip(model.network.layers, model.history, strict=True):
        writer.add_layer(layer, record)
    history = tmp_path / "m" / "history.jsonl"
    whole = history.read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for cut in {*range(0, len(whole), 23), *ends, *(end - 1 for end in ends)}:
        history.write_bytes(whole[:cut])
        layers = sum(cut >= end for end in ends)
        if layers:
            loaded = load_model(tmp_path / "m")
            assert len(loaded.network.layers) == layers
        else:
            with pytest.raises(ModelFileError, match="has no complete layer"):
                load_model(tmp_path / "m")


def test_foreign_and_later_files_are_named(model, saved, tmp_path):
    with pytest.raises(ModelFileError) as error:
        load_model(tmp_path / "nowhere")
    check_message(error, "there is no model", "nowhere")
    with pytest.raises(ModelFileError) as error:
        load_model(tmp_path)
    check_message(error, "must be a model's folder, but has no model.json")
    file = saved / "model.json"
    content = json.loads(file.read_text())
    for text, words in {
        "": "must be a JSON object",
        "[" * 100_000: "must be a JSON object",
        '{"layers": 3}': "was not written by rescnet",
        json.dumps(content | {"image_shape": [1, 9, 9]}): "was altered: its checksum does not match",
        signed(content, image_shape=[1, 8]): "must have an image shape of three sides, got [1, 8]",
        signed(content, image_shape=[1, 2, 2]): "filter_size must be at most 2",
        signed(content, class_names=["a"]): "must have two class names at least, got 1",
        signed(content, config=content["config"] | {"depth": 3}): "option names must be known, got 'depth'",
        signed(content, config=content["config"] | {"filters": 4}): "00001.safetensors: 'weights' must have shape",
        signed(content, about=None): "about must be an object, got None",
        signed(content, sealed=content["sealed"] | {"layers": 2}): "is cut short or altered: 3 of 2 layers",
    }.items():
        file.write_text(text)
        with pytest.raises(ModelFileError) as error:
            load_model(saved)
        check_message(error, words, str(saved))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 5, "about": {"versions": {"rescnet": "0.3.0"}}}, "got 5 (rescnet 0.3.0)"),
        ({"version": 2, "about": {}, "config": {"readout": "kernel-exact", "whitening": 3}}, "got 2"),
        ({"version": 7, "rescnet": "0.9.1", "layers": []}, "got 7 (rescnet 0.9.1)"),
        ({"version": None, "rescnet": 9, "about": [5]}, "got None"),
    ],
)
def test_another_format_is_refused_in_one_sentence(changes, words, saved):
    """It names both versions, whatever else is in the file."""
    file = saved / "model.json"
    content = {key: value for key, value in json.loads(file.read_text()).items() if key != "rescnet"}
    file.write_text(json.dumps(content | changes))
    for read in (load_model, read_run):
        with pytest.raises(ModelFileError) as error:
            read(saved)
        wanted = f"{file} must be of model format 6 (rescnet {__version__}), {words}: "
        assert str(error.value) == f"{wanted}train the model again, or use the version that wrote it."


def test_facts_and_options_that_a_later_version_adds_are_let_alone(saved, images, model):
    """The same format: options keep their defaults, and unknown facts and records change nothing."""

    def change(content):
        del content["config"]["loo_correction"]
        content["about"]["loss"] = {"kind": "new"}
        content["later"] = 1

    change_model_json(saved, change)
    change_history(saved, lambda lines: lines[1].update(later=2.0))
    assert torch.equal(load_model(saved).network.outputs(images), model.network.outputs(images))


def test_a_file_of_another_model_is_refused(model, saved, tmp_path):
    other = with_layers(model.network, [layer.to("cpu", torch.float64) for layer in model.network.layers])
    save_model(Model(other, model.history, NAMES), tmp_path / "other")
    theirs = (tmp_path / "other" / layout.layer_name(2)).read_bytes()
    (saved / layout.layer_name(2)).write_bytes(theirs)
    with pytest.raises(ModelFileError) as error:
        load_model(saved)
    check_message(error, "layers/00002.safetensors must have", "bytes, got")


def same(model, other):
    def tensors(layer):
        head, scale = layer.head, layer.input_range
        return [scale.low, scale.high, layer.weights, layer.bias, head.weights, head.bias, head.present]

    return (
        model.network.config == other.network.config
        and (model.class_names, model.history, model.about) == (other.class_names, other.history, other.about)
        and len(model.network.layers) == len(other.network.layers)
        and all(
            (a.rate, a.positive_share) == (b.rate, b.positive_share)
            and all(torch.equal(x, y) for x, y in zip(tensors(a), tensors(b), strict=True))
            for a, b in zip(model.network.layers, other.network.layers, strict=True)
        )
    )


def altered(data, rng):
    """Return the bytes with something done to them."""
    damage = bytearray(data)
    place = int(rng.integers(len(damage)))
    match rng.integers(8):
        case 0:
            return bytes(damage[:place])
        case 1:
            return bytes(damage) + rng.bytes(int(rng.integers(1, 40)))
        case 2:
            return rng.bytes(len(damage))
        case 3:
            damage[place:place] = rng.bytes(int(rng.integers(1, 9)))
        case 4:
            del damage[place : place + int(rng.integers(1, 60))]
        case 5:
            damage[place] ^= 1 << int(rng.integers(8))
        case 6:
            damage[place : place + 8] = b"\0" * len(damage[place : place + 8])
        case _:
            for _ in range(int(rng.integers(1, 5))):
                damage[int(rng.integers(len(damage)))] = int(rng.choice(list(b'0123456789 \n\t{}[]",:eE-+.')))
    return bytes(damage)


@pytest.mark.slow
def test_altered_bytes_give_a_clean_error_or_the_same_answer(model, tmp_path):
    """1,500 damages to any file of a model of two layers; `python -m lab.attack` makes more."""
    small = replace(first_layers(model, 2), about={"a": 1.5})
    save_model(small, tmp_path / "m")
    files = {file: file.read_bytes() for file in (tmp_path / "m").rglob("*") if file.is_file()}
    expected, rng = load_model(tmp_path / "m"), np.random.default_rng(7)
    names, refused = sorted(files), 0
    for _ in range(1500):
        file = names[int(rng.integers(len(names)))]
        file.write_bytes(altered(files[file], rng))
        try:
            loaded = load_model(tmp_path / "m")
        except ModelFileError as error:
            refused += 1
            assert str(tmp_path / "m") in str(error) and "\n" not in str(error)
        else:
            assert same(loaded, expected), file
        file.write_bytes(files[file])
    assert refused > 1200


def test_facts_about_a_run_are_ready_for_json(images):
    facts = describe_run("cpu") | describe_images(torch.from_numpy(images).float())
    assert json.loads(json.dumps(facts)) == facts
    assert facts["pixels"] == "float32" and facts["versions"]["torch"] == torch.__version__


def test_a_model_must_fit_together(model):
    with pytest.raises(ValueError, match=r"labels must be 3, one per class, got shape \(2,\)"):
        Model(model.network, model.history, ("a", "b"))
    with pytest.raises(ValueError, match="history must have 3 records, one per layer, got 1"):
        Model(model.network, first_layers(model, 1).history, NAMES)


def test_a_model_predicts_names(model, images):
    outputs = model.network.outputs(images)
    named = model.predict(images)
    assert named.shape == (30,) and set(named) <= set(NAMES)
    assert [NAMES.index(name) for name in named] == outputs.argmax(1).tolist()
    shares = model.predict_proba(images)
    np.testing.assert_allclose(shares.sum(1), 1)
    assert shares.argmax(1).tolist() == outputs.argmax(1).tolist()
    assert repr(model) == f"Model({model.network!r}, classes ant, bee, Käfer)"


def test_a_model_that_a_kill_left_beside_its_place_is_named(tmp_path):
    (tmp_path / "m.partial").mkdir()
    with pytest.raises(ModelFileError, match=r"there is no model .*m. One that was to be put there is in .*m.partial"):
        load_model(tmp_path / "m")


def test_a_failed_save_leaves_the_folder_as_it_was(model, tmp_path, monkeypatch):
    place, write = tmp_path / "empty", ModelWriter.add_layer
    (place / "layers").mkdir(parents=True)
    (place / "layers" / "mine.npy").touch()

    def full(writer, *layer):
        if writer.layers == 1:
            assert list(place.iterdir())
            raise OSError(28, "No space left on device")
        write(writer, *layer)

    monkeypatch.setattr(ModelWriter, "add_layer", full)
    with pytest.raises(OSError, match="No space"):
        save_model(model, place)
    assert [file.name for file in place.rglob("*")] == ["layers", "mine.npy"]  # what was there stays


def test_facts_that_json_cannot_hold_are_named(model, tmp_path):
    with pytest.raises(ValueError, match=r"about must hold facts for JSON: .*PosixPath.* Use text, numbers"):
        save_model(replace(model, about={"folder": tmp_path}), tmp_path / "m")


def test_a_model_is_loaded_on_any_device_by_name(model, tmp_path):
    save_model(model, tmp_path / "m")
    assert load_model(tmp_path / "m", device="auto").network.layers
    with pytest.raises(ValueError, match="device must be auto, cpu, cuda or cuda:0, got 'gpu'"):
        load_model(tmp_path / "m", device="gpu")
