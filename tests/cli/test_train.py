"""``rescnet train``: a model from a folder of PNG files; Ctrl-C loses nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from rescnet import ResCNetClassifier
from rescnet.saving import ModelFolder, load_model


def test_a_run_is_printed_and_saved_layer_by_layer(small, rescnet, pictures, tmp_path):
    result = rescnet("train", pictures, *small, "--out", tmp_path / "m")
    assert result.exit_code == 0
    for words in (
        "digits: 10 classes, images 8×8×1, on cpu",
        "  160 training, 40 validation, 100 test images; settings of the preset paper\n",
        "up to 3 layers of 6 pca filters",
        "3 layers in",
        f"model: {tmp_path / 'm'}",
    ):
        assert words in result.stdout
    assert "stopped because" not in result.stdout
    assert re.search(r"validation accuracy: [\d.]+ % at layer 3, the last", result.stdout)
    at_best = r"test accuracy: [\d.]+ % at layer 3, the last(;.*|,.*| and) the best validation depth"
    assert re.search(at_best, result.stdout)
    folder = ModelFolder.open(tmp_path / "m")
    about = folder.about
    assert folder.class_names[:3] == ("eight", "five", "four")
    assert about["images"] == {"train": 160, "validation": 40, "test": 100}
    assert about["preprocessing"] == {
        "pixels": "uint8",
        "low": 0.0,
        "high": 255.0,
        "channels": 1,
        "height": 8,
        "width": 8,
        "colour": "grey",
    }
    assert about["source"] == str(pictures) and about["seed"] == 0 and about["stopped"] == "all layers were added"


@pytest.mark.slow
def test_the_first_images_of_each_class(small, rescnet, refused, pictures, tmp_path):
    """SOURCE:10 trains on ten images per class; the model remembers it, and is evaluated on the test images."""
    out = tmp_path / "m"
    result = rescnet("train", f"{pictures}:10", *small, "--layers", 1, "--out", out, "--validation-fraction", 0)
    assert "training images: the first 10 of each class, 100 of 200" in result.stdout
    assert "digits:10: 10 classes" in result.stdout and "  100 training, 100 test images" in result.stdout
    assert ModelFolder.open(out).about["source"] == f"{pictures}:10"
    assert "100 test images of digits:10" in rescnet("evaluate", out).stdout
    assert "100 training images of digits:10" in rescnet("evaluate", out, "--split", "train").stdout
    assert "100 test images of digits," in rescnet("evaluate", out, pictures).stdout
    assert rescnet("train", "--resume", out, "--layers", 2).exit_code == 0
    assert "got 'digits:0'" in refused("train", "digits:0")
    assert "images per class must be between 1 and 2" in refused("compare", f"{pictures}:5000")


def test_json_is_all_there_is_on_stdout(small, rescnet, pictures, tmp_path):
    result = rescnet("train", pictures, *small, "--out", tmp_path / "m", "--json")
    *layers, summary = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["layer"] for record in layers] == [1, 2, 3]
    assert summary["model"] == str(tmp_path / "m") and summary["layers"] == 3
    assert summary["last_test_accuracy"] == layers[-1]["test_accuracy"] > 0.8
    best = max(layers, key=lambda record: record["validation_accuracy"])
    assert summary["best_layer"] == best["layer"] and summary["best_test_accuracy"] == best["test_accuracy"]
    assert "3 layers in" in result.stderr


def test_quiet_prints_where_the_model_is(small, rescnet, pictures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = set()
    for _ in range(2):
        result = rescnet("train", pictures, *small, "--layers", 1, "--quiet", "--limit", 60, "--validation-fraction", 0)
        assert (result.exit_code, result.stderr) == (0, "")
        places.add(result.stdout.strip())
    assert len(places) == 2 and all(re.fullmatch(r"runs/digits-\d{8}-\d{6}(-2)?", place) for place in places)
    assert ModelFolder.open(tmp_path / places.pop()).about["images"] == {"train": 60, "test": 100}


def test_a_model_is_replaced_only_with_overwrite(small, rescnet, refused, pictures, tmp_path):
    first = ["train", pictures, *small, "--layers", 1, "--out", tmp_path / "m"]
    assert rescnet(*first).exit_code == 0
    before = (tmp_path / "m" / "model.json").read_bytes()
    assert "holds a model already" in refused(*first)
    assert (tmp_path / "m" / "model.json").read_bytes() == before
    assert rescnet(*first, "--layers", 2, "--overwrite").exit_code == 0
    assert len(ModelFolder.open(tmp_path / "m").records) == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_a_photo_folder_is_fitted_and_its_problems_are_listed(small, rescnet, refused, pictures, save_png, tmp_path):
    mixed = shutil.copytree(pictures / "train", tmp_path / "mixed")
    save_png(mixed / "one" / "large.png", np.zeros((300, 400, 3)))
    (mixed / "one" / "notes.txt").write_text("hello")
    result = rescnet("train", mixed, *small, "--out", tmp_path / "m")
    assert "resized and centre-cropped to 8×8 (height×width); found 2 sizes from 8×8 to 300×400\n" in result.stdout
    assert "200 grey images among colour ones, converted to colour: eight/" in result.stdout
    assert "1 file that is not an image, skipped: one/notes.txt\n" in result.stdout
    folder = ModelFolder.open(tmp_path / "m")
    assert folder.image_shape == (3, 8, 8)
    assert (folder.about["image_size"], folder.about["fit"]) == ("8,8", "centre-crop")
    assert rescnet("train", "--resume", tmp_path / "m", "--layers", "4").exit_code == 0
    assert "and 201 more problems. List all with rescnet check" in refused("train", mixed, "--strict")


def test_the_size_may_be_chosen(small, rescnet, pictures, save_png, tmp_path):
    shutil.copytree(pictures / "train", tmp_path / "mixed")
    save_png(tmp_path / "mixed" / "one" / "large.png", np.zeros((16, 12)))
    result = rescnet("train", tmp_path / "mixed", *small, "--image-size", "10,9", "--out", tmp_path / "m")
    assert result.exit_code == 0 and ModelFolder.open(tmp_path / "m").image_shape == (1, 10, 9)
    assert rescnet("evaluate", tmp_path / "m").exit_code == 0  # at the same size again


@pytest.mark.parametrize(("classes", "head"), [(10, "lda"), (11, "multiclass-lda")])
def test_a_folder_of_many_classes_gets_settings_for_many(classes, head, small, rescnet, save_png, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (classes, 4, 16, 16))
    for number in np.ndindex(classes, 4):
        save_png(tmp_path / "folder" / f"class {number[0]}" / f"{number[1]}.png", pixels[number])
    result = rescnet("train", tmp_path / "folder", *small, "--layers", "1", "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert ModelFolder.open(tmp_path / "m").config.head == head


@pytest.mark.parametrize("name", ["broken.png", "empty.png", "readme.txt"])
def test_a_bad_folder_is_refused_and_nothing_written(name, small, refused, pictures, tmp_path):
    shutil.copytree(pictures / "train", tmp_path / "folder")
    (tmp_path / "folder" / "two" / name).write_bytes(b"" if name == "empty.png" else b"not really")
    words = [tmp_path / "folder", *small, "--out", tmp_path / "m"]
    assert name in refused("train", *words, "--strict")
    message = refused("train", *words, "--image-size", "big")
    assert "image size must be height and width in pixels, e.g. 32,32, got 'big'" in message
    for other in [place for place in (tmp_path / "folder").iterdir() if place.name != "two"]:
        shutil.rmtree(other)
    assert "folder must have at least two classes, got only 'two'" in refused("train", *words)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["digitz"], "Did you mean 'digits'?"),
        (["digitz"], "Did you mean 'digits'?"),
        (["./nowhere"], "got './nowhere', which does not exist"),
        (["--bank", "pcaa"], "Did you mean 'pca'?"),
        (["--validation-fraction", "1.5"], "validation_fraction must be between 0 and 1, got 1.5"),
        (["--limit", "0"], "limit must be at least 20 with 10 classes, got 0"),
        (["--limit", "3"], "limit must be at least 20 with 10 classes, got 3"),
        (["--device", "tpu"], "device must be auto, cpu, cuda or cuda:0, got 'tpu'"),
        (["--preset", "cifar"], "Did you mean 'cifar"),
        (["--config", "none.toml"], "configuration file must be readable, got 'none.toml' (No such file or directory)"),
        (["--out", "/proc/model"], "/proc/model cannot be created in /proc"),
        (["--block-sizes", "9"], "block_sizes must be at most 8 on images of 8×8, got 9"),
    ],
)
def test_bad_options_are_refused_and_nothing_written(words, message, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused("train", *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", ["5000,5000", "2,2"])
@pytest.mark.parametrize("preset", [[], ["--preset", "paper"], ["--preset", "digits"]], ids=lambda words: words[-1:])
def test_an_impossible_image_size_is_refused_before_files_are_read(size, preset, refused, pictures, monkeypatch):
    monkeypatch.setattr("rescnet.cli.images.load", None)  # reading would fail
    said = refused("train", pictures, "--image-size", size, "--max-memory", "8GB", *preset)
    assert ("must have at least 4×4 pixels, got 2×2" if size == "2,2" else "max_memory must be at least ") in said


def test_one_image_per_class(rescnet, save_png, tmp_path):
    """From a folder and from an array: the same network. Its leave-one-out accuracy is unknown."""
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8)).astype(np.uint8)
    for name, image in zip("abc", images, strict=True):
        save_png(tmp_path / "folder" / name / "1.png", image)
    done = rescnet("train", tmp_path / "folder", "--out", tmp_path / "m")
    assert done.exit_code == 0 and "leave-one-out" not in done.stdout, done.output
    model, fitted = (
        load_model(tmp_path / "m"),
        ResCNetClassifier(random_state=0, dtype="float32").fit(images, [0, 1, 2]),
    )
    assert model.history.readout.loo_accuracy is None and model.network.readout.temperature is None
    found = model.network.outputs(images[:, None])
    np.testing.assert_allclose(found, fitted.model_.network.outputs(images[:, None]), atol=1e-5)
    assert found.argmax(1).tolist() == [0, 1, 2]


def interrupted_run(small, pictures, place, *words, layers=4):
    """Train in another process, press Ctrl-C after some layers, and return its exit code and what it said."""
    command = [sys.executable, "-m", "rescnet", "train", pictures, *small, "--layers", "5000", "--out", place, *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job would ignore it
    )
    history = place / "history.jsonl"
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if history.exists() and history.read_bytes().count(b"\n") >= layers:
            break
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.slow
def test_ctrl_c_leaves_a_usable_model_and_says_so(small, pictures, tmp_path):
    code, out, err = interrupted_run(small, pictures, tmp_path / "m", "--json")
    assert code == 130, err
    layers = int(re.search(r"interrupted: (\d+) layers are finished and usable, in (.*)\n", err)[1])
    assert str(tmp_path / "m") in err and "Traceback" not in err
    assert layers >= 4
    model = load_model(tmp_path / "m")
    assert len(model.network.layers) == layers and model.history.stopped == "it was interrupted"
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[-1]["layers"] == layers and lines[-1]["model"] == str(tmp_path / "m")


@pytest.mark.filterwarnings("default::rescnet.network.inputs.InputWarning")
def test_warnings_are_one_line(small, rescnet, tmp_path):
    """A class without an image, and images divided by 255: both are computed, with one line on stderr."""
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8)).astype(np.uint8)
    labels = 2 * (np.arange(40) % 2)
    np.savez(tmp_path / "gap.npz", x=images, y=labels, class_names=["ant", "bee", "cat"])
    result = rescnet("train", tmp_path / "gap.npz", *small, "--out", tmp_path / "m")
    assert result.exit_code == 0 and result.stderr.count("\n") == 1
    assert result.stderr.startswith(
        "warning: labels should be numbered without gaps, got no image of 1 of 3 classes (1)."
    )
    np.savez(tmp_path / "divided.npz", x=images / 255, y=labels, class_names=["ant", "bee", "cat"])
    result = rescnet("evaluate", tmp_path / "m", tmp_path / "divided.npz")
    assert result.exit_code == 0 and result.stderr.count("\n") == 1
    assert result.stderr.startswith(
        "warning: images should be in the units of the training images, up to 255, got 0.996."
    )


@pytest.mark.slow
def test_the_default_network_needs_no_validation_images(rescnet, refused, pictures, tmp_path, monkeypatch):
    pictures = pictures / "train"  # without test images
    words = ["train", pictures, "--limit", 60, "--quality", "fast", "--time-limit", "10m", "--filters", 4]
    result = rescnet(*words, "--out", tmp_path / "m")
    assert result.exit_code == 0 and "mirror images: " in result.stdout and "of 10 min 00 s on" in result.stdout
    assert re.search(
        r"leave-one-out accuracy of 60 training images: [\d.]+ % \(95 % interval for new images: ", result.stdout
    )
    folder = ModelFolder.open(tmp_path / "m")
    assert folder.about["images"]["train"] == 60 and folder.config.readout == "kernel" and len(folder.records) == 2
    shown, found = rescnet("info", tmp_path / "m").stdout, rescnet("evaluate", tmp_path / "m")
    assert "with the kernel readout, each image left out" in shown and found.exit_code == 0
    assert "leave-one-out accuracy of 60 training images: " in found.stdout
    assert json.loads(rescnet("evaluate", tmp_path / "m", "--json").stdout)["split"] == "leave-one-out"
    assert "Name others: rescnet report MODEL SOURCE." in rescnet("report", tmp_path / "m").stdout
    assert '"left_out":{"accuracy":' in (tmp_path / "m" / "report.html").read_text()
    assert "quality must be left out with preset 'paper'" in refused(*words, "--preset", "paper")
    assert "time_limit must be a positive number of s, m or h" in refused("train", pictures, "--time-limit", "soon")
    monkeypatch.setattr("rescnet.cli.new_run.STARTED", time.monotonic() - 1000)  # the start of the program counts
    assert re.search(r"time_limit must be at least 16 min 4\d s", refused(*words))
    assert "quality must be one of" in refused("train", pictures, "--quality", "good")


def test_more_test_images_than_training_images_are_left_to_evaluate(rescnet, small, pictures, tmp_path, monkeypatch):
    monkeypatch.setattr("rescnet.cli.training_run.TESTED_ON_CPU", 50)
    result = rescnet("train", f"{pictures}:4", *small, "--layers", 1, "--out", tmp_path / "m")
    assert result.exit_code == 0 and "test images are left to rescnet evaluate" in result.stdout
    (record,) = ModelFolder.open(tmp_path / "m").records
    assert record.test_accuracy is None
