"""``rescnet predict``: the three most probable classes of image files."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rescnet import data
from rescnet.saving import load_model, save_model


def test_predictions_of_files_are_those_of_the_network(rescnet, model, pictures, tmp_path):
    result = rescnet("predict", model, pictures / "test", "--json", "--out", tmp_path / "p.csv")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    dataset, loaded = data.load(pictures), load_model(model)
    files = sorted((pictures / "test").rglob("*.png"))
    assert [row["file"] for row in rows] == list(map(str, files))
    expected = loaded.network.predict_indices(dataset.test.images)
    assert [row["classes"][0]["class"] for row in rows] == [loaded.class_names[index] for index in expected]
    right = np.mean([row["classes"][0]["class"] == file.parent.name for row, file in zip(rows, files, strict=True)])
    assert right == loaded.history[-1].test_accuracy > 0.8
    for row in rows:
        shares = [entry["probability"] for entry in row["classes"]]
        assert len(shares) == 3 and shares == sorted(shares, reverse=True) and 0 < sum(shares) <= 1 + 1e-12
    with (tmp_path / "p.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [line["class_1"] for line in table] == [row["classes"][0]["class"] for row in rows]
    assert float(table[0]["probability_2"]) == pytest.approx(rows[0]["classes"][1]["probability"], abs=1e-6)


def test_one_picture_loads_no_estimator_and_no_exporter(model, pictures):
    file = next((pictures / "test" / "three").iterdir())
    code = f"""
import sys
from rescnet.cli import app
app(["predict", {str(model)!r}, {str(file)!r}], standalone_mode=False)
sys.exit(" ".join({{"sklearn", "onnx"}} & set(sys.modules)) or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "three" in done.stdout


def test_the_table_and_a_json_file(rescnet, model, pictures, tmp_path):
    files = sorted((pictures / "test" / "three").iterdir())[:2]
    result = rescnet("predict", model, *files, files[0], "--out", tmp_path / "p.json")
    assert result.exit_code == 0
    assert "first" in result.stdout and "third" in result.stdout and " %" in result.stdout
    assert "2 predictions written to" in result.stdout  # a file named twice is one file
    assert [row["file"] for row in json.loads((tmp_path / "p.json").read_text())] == list(map(str, files))


def test_pictures_become_grey_and_are_fitted(rescnet, model, save_png, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8))
    grey = save_png(tmp_path / "grey.png", pixels)
    colour = save_png(tmp_path / "colour.png", np.repeat(pixels[:, :, None], 3, 2))
    rows = [json.loads(line) for line in rescnet("predict", model, grey, colour, "--json").stdout.splitlines()]
    assert rows[0]["classes"] == rows[1]["classes"]
    large = save_png(tmp_path / "large.png", np.repeat(np.repeat(pixels, 2, 0), 2, 1))
    sides = np.zeros((16, 5))
    wide = save_png(tmp_path / "wide.png", np.hstack([sides, np.repeat(np.repeat(pixels, 2, 0), 2, 1), sides]))
    large, cropped = [json.loads(line) for line in rescnet("predict", model, large, wide, "--json").stdout.splitlines()]
    assert [entry["class"] for entry in large["classes"]] == [entry["class"] for entry in cropped["classes"]]
    assert large["classes"][0]["probability"] == pytest.approx(cropped["classes"][0]["probability"], abs=0.2)


def test_fitting_is_said_where_training_had_one_size(rescnet, model, pictures, save_png, tmp_path):
    large = save_png(tmp_path / "large.png", np.zeros((16, 16)))
    assert rescnet("predict", model, large).stderr == ""  # trained on a folder
    loaded = load_model(model)
    del loaded.about["fit"]
    save_model(loaded, tmp_path / "m")
    result = rescnet("predict", tmp_path / "m", large, *(pictures / "test" / "one").iterdir())
    assert result.stderr == "1 image is resized and centre-cropped to 8×8 (height×width) for this model\n"


def test_missing_and_unreadable_files_are_skipped(rescnet, model, pictures, save_png, tmp_path):
    (good, *_) = (pictures / "test" / "one").iterdir()
    (tmp_path / "note.txt").write_text("hello")
    torn = save_png(tmp_path / "torn.png", np.random.default_rng(0).integers(0, 256, (40, 40, 3)))
    torn.write_bytes(torn.read_bytes()[:2000])  # its header is that of an image
    paths = torn, tmp_path / "none.png", good, tmp_path / "note.txt"
    result = rescnet("predict", model, *paths, "--json", "--out", tmp_path / "p.json")
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == [str(good)]
    assert len(json.loads((tmp_path / "p.json").read_text())) == 1
    title, *reasons = result.stderr.strip().splitlines()
    assert title == "3 paths without a prediction:" and len(reasons) == 3
    assert all(any(path.name in reason for reason in reasons) for path in paths if path != good)
    assert result.exit_code == 1


def test_bad_input_is_named_and_nothing_overwritten(refused, model, pictures, tmp_path):
    (tmp_path / "torn.png").write_bytes((pictures / "test" / "one").iterdir().__next__().read_bytes()[:60])
    (tmp_path / "note.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "p.csv").write_text("mine")
    good = pictures / "test" / "one"
    for words, message in (
        ([tmp_path / "torn.png"], "torn.png cannot be read as an image"),
        ([tmp_path / "note.txt", tmp_path / "torn.png"], "note.txt must be an image"),
        ([tmp_path / "none.png"], "image files must exist, got"),
        ([tmp_path / "empty"], "empty must contain an image file (.bmp,"),
        ([good, "--out", tmp_path / "p.csv"], "p.csv. Use another name, or --overwrite."),
        ([good, "--out", tmp_path / "p.xlsx"], "path must end in .csv or .json, got"),
        ([good, "--out", tmp_path / "none" / "p.csv"], "path must be in an existing folder, got"),
        ([good, "--layers", "9"], "layers must be between 1 and 3, got 9"),
    ):
        assert message in refused("predict", model, *words)
    assert (tmp_path / "p.csv").read_text() == "mine"
    assert "there is no model" in refused("predict", tmp_path / "none", good)


def test_images_have_the_range_of_the_training_images(rescnet, refused, small, pictures, tmp_path):
    dataset = data.load(pictures)
    answers = []
    for name, images in (
        ("bytes", dataset.train.images),
        ("shares", (dataset.train.images / 255).astype(np.float32)),
        ("signed", (dataset.train.images / 127.5 - 1).astype(np.float32)),
    ):
        names = np.array(dataset.class_names)
        np.savez(tmp_path / f"{name}.npz", images=images[:, 0], labels=names[dataset.train.labels])
        assert rescnet("train", tmp_path / f"{name}.npz", *small, "--out", tmp_path / name).exit_code == 0
        if name == "signed":
            message = refused("predict", tmp_path / name, pictures / "test")
            assert "must be trained on pixels from 0 to 255 to predict image files, got -1 to 1" in message
        else:
            result = rescnet("predict", tmp_path / name, pictures / "test", "--json")
            answers.append([json.loads(line)["classes"][0] for line in result.stdout.splitlines()])
    for one, other in zip(*answers, strict=True):
        assert one["class"] == other["class"]
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-3)
    assert torch.is_tensor(load_model(tmp_path / "shares").network.layers[0].weights)


def test_a_folder_that_cannot_be_written_to_is_refused_first(refused, model, pictures, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    message = refused("predict", model, pictures / "test", "--out", tmp_path / "p.csv")
    assert f"path must be in a writable folder, got {tmp_path / 'p.csv'}. Use another place." in message
