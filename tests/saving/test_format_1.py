"""Models of formats 1 and 2: they load, or name the last commit that reads them."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
import torch
from safetensors.torch import load, save
from saving.tiny_model import change_model_json, check_message, make_model

from rescnet.config.removed import LAST_COMMIT, REMOVED, RENAMED
from rescnet.saving import ModelFileError, ModelFolder, load_model, read_run, save_model

OLD_NAMES = {new: old for old, new in RENAMED.items() if old != "more_block_sizes"}


def to_format_2(folder):
    """Rewrite a model as format 2."""

    def change(content):
        config = content["config"]
        del config["readout_size"]
        for name in ("steps", "residual"):
            content["about"].get("readout", {}).get("record", {}).pop(name, None)
        content.update(version=2)

    change_model_json(folder, change)


def to_format_1(folder, **options):
    """Rewrite a model with the names and options of format 1, some with other values."""

    to_format_2(folder)

    def change(content):
        config = {OLD_NAMES.get(name, name): value for name, value in content["config"].items()}
        config["block_size"], *config["more_block_sizes"] = config["block_size"]
        config |= REMOVED | {"copy_residuals": "own"} | options
        content.update(version=1, config=config)
        content["sealed"].pop("previous")
        content["about"]["stopped"] = "3 layers were asked for"

    change_model_json(folder, change)
    file = folder / "readout.safetensors"
    if file.exists():
        tensors = load(file.read_bytes())
        data = save({name.replace("loo_correction", "second_look"): tensor for name, tensor in tensors.items()})
        file.write_bytes(data)
        facts = ModelFolder.open(folder).about["readout"] | {"bytes": len(data), "sha256": sha256(data).hexdigest()}
        change_model_json(folder, lambda content: content["about"].update(readout=facts))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"block_sizes": [4, 6], "test_views": "flip", "stack_depth": 2, "pyramid_bins": "adaptive"},
        {"posterior": "normalised-sigmoid", "augment": "flip", "pca_bias": "none"},
    ],
    ids=["plain", "renamed", "posterior"],
)
def test_a_model_of_format_1_is_loaded(options, images, tmp_path):
    model = make_model(**options)
    save_model(tmp_path / "m", model)
    old_values = {"posterior": "sigmoid-shares"} if "posterior" in options else {}
    to_format_1(tmp_path / "m", **old_values)
    content = json.loads((tmp_path / "m" / "model.json").read_text())
    assert content["version"] == 1 and "block_size" in content["config"] and "block_sizes" not in content["config"]
    loaded = load_model(tmp_path / "m")
    assert loaded.network.config == model.network.config
    assert torch.equal(loaded.network.outputs(images), model.network.outputs(images))
    assert loaded.history.stopped is None and loaded.about["stopped"] == "3 layers were asked for"


def test_a_model_of_format_2_is_loaded(images, tmp_path):
    model = make_model(layers=1)
    save_model(tmp_path / "m", model)
    to_format_2(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.network.config == model.network.config
    assert torch.equal(loaded.network.outputs(images), model.network.outputs(images))
    with pytest.raises(ModelFileError, match=r"must be of model format 5 to be resumed, got 2\. Train a new run"):
        read_run(tmp_path / "m")


def test_an_option_that_is_younger_than_the_file_keeps_its_old_meaning(saved):
    to_format_1(saved)
    change_model_json(saved, lambda content: content["config"].pop("pca_bias"))
    assert load_model(saved).network.config.pca_bias == "none"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"whitening": 3}, "whitening must be 0, got 3"),
        ({"momentum": 0.5}, "momentum must be 0.0, got 0.5"),
        ({"border": "edge"}, "border must be 'zero', got 'edge'"),
        ({"bank": "rotated-pca"}, "bank must be one of"),
        ({"bank": "pca | dct"}, "bank must be a mixture"),
        ({"rectifier": "abs"}, "rectifier must be"),
        ({"more_block_sizes": None}, "has an unknown option or value"),
    ],
)
def test_a_removed_value_names_the_last_commit_that_reads_it(options, words, saved):
    to_format_1(saved, **options)
    with pytest.raises(ModelFileError) as error:
        load_model(saved)
    assert "\n" not in str(error.value) and str(saved / "model.json") in str(error.value)
    assert words in str(error.value) and str(error.value).count(LAST_COMMIT) == 1


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_matrix_root_of_formats_2_to_4_names_the_last_commit_that_reads_it(version, saved):
    def change(content, root):
        content.update(version=version)
        content["config"]["matrix_root"] = root
        content["config"].pop("matrix_log", None)

    change_model_json(saved, lambda content: change(content, root=False))
    assert not load_model(saved).network.config.matrix_log
    change_model_json(saved, lambda content: change(content, root=True))
    with pytest.raises(ModelFileError, match=r"matrix_root must be False, got True\. Read .* at commit 0e1a9a3"):
        load_model(saved)


def test_an_old_name_is_unknown_in_format_3(saved):
    change_model_json(saved, lambda content: content["config"].update(cells="official"))
    with pytest.raises(ModelFileError) as error:
        load_model(saved)
    check_message(error, "got 'cells'", "It is called 'pyramid_bins' now")
