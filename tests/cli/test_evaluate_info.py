"""``rescnet evaluate``, ``info``, ``datasets`` and ``report``."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from scipy.stats import binomtest

from rescnet import data
from rescnet.base.intervals import show_interval
from rescnet.saving import ModelFolder, load_model, save_model


def test_test_images_are_evaluated(rescnet, model):
    facts = json.loads(rescnet("evaluate", model, "--json").stdout)
    records = ModelFolder.open(model).records
    assert (facts["split"], facts["images"], facts["layers"]) == ("test", 100, 3)
    assert facts["accuracy"] == pytest.approx(records[-1].test_accuracy)
    confusion = np.array(facts["confusion"])
    assert confusion.sum() == 100 and confusion.trace() == round(100 * facts["accuracy"])
    assert [row["images"] for row in facts["per_class"]] == confusion.sum(1).tolist()
    assert sum(row["images"] for row in facts["confusions"]) == 100 - confusion.trace()
    worst = facts["confusions"][0]
    names = ModelFolder.open(model).class_names
    assert confusion[names.index(worst["true"]), names.index(worst["predicted"])] == worst["images"]
    first = json.loads(rescnet("evaluate", model, "--json", "--layers", 1).stdout)
    assert first["accuracy"] == pytest.approx(records[0].test_accuracy)


@pytest.mark.slow
def test_views_are_averaged_over_whatever_the_model_was_trained_with(
    rescnet, refused, model, pictures, small, tmp_path
):
    views = "flip + shift 1"
    assert rescnet("train", pictures, *small, "--test-views", views, "--out", tmp_path / "m").exit_code == 0
    plain, averaged = (ModelFolder.open(place).records[-1].test_accuracy for place in (model, tmp_path / "m"))
    assert plain != averaged  # or the rest would show nothing
    for place, words, accuracy in (
        (model, ["--views", views], averaged),
        (tmp_path / "m", [], averaged),
        (tmp_path / "m", ["--views", ""], plain),
    ):
        facts = json.loads(rescnet("evaluate", place, "--json", *words).stdout)
        assert facts["accuracy"] == pytest.approx(accuracy)
        assert facts["test_views"] == (views if accuracy == averaged else "")
    assert "3 layers, mean over 10 views (flip + shift 1), on cpu" in rescnet("evaluate", tmp_path / "m").stdout
    one, other = (
        rescnet("predict", *words, pictures / "test", "--json").stdout
        for words in ([tmp_path / "m"], [model, "--views", views])
    )
    assert one == other != rescnet("predict", model, pictures / "test", "--json").stdout
    assert "flips and shifts only" in refused("evaluate", model, "--views", "rotate 5")
    message = refused("predict", model, pictures / "test", "--views", "mirrored")
    assert "test_views must be a list of changes, e.g. 'flip + shift 2'" in message


def test_the_images_held_out_in_training_are_found_again(rescnet, model):
    records = ModelFolder.open(model).records
    for split, images, accuracy in (
        ("validation", 40, records[-1].validation_accuracy),
        ("train", 160, records[-1].train_accuracy),
    ):
        facts = json.loads(rescnet("evaluate", model, "--json", "--split", split).stdout)
        assert (facts["split"], facts["images"]) == (split, images)
        assert facts["accuracy"] == pytest.approx(accuracy)
        expected = binomtest(round(accuracy * images), images).proportion_ci(method="wilson")
        assert facts["interval"] == pytest.approx(list(expected), abs=1e-6)


def test_a_set_that_comes_in_one_split_is_evaluated_on_what_was_held_out(rescnet, refused, small, tmp_path):
    seeds = ["--seed", "3", "--limit", "300", "--validation-fraction", "0.3"]
    assert rescnet("train", "digits", *small, *seeds, "--out", tmp_path / "m").exit_code == 0
    record = ModelFolder.open(tmp_path / "m").records[-1]
    result = rescnet("evaluate", tmp_path / "m")
    assert "90 validation images of digits, 3 layers, on cpu" in result.stdout
    assert f"accuracy: {100 * record.validation_accuracy:.2f} %" in result.stdout
    assert f"95 % interval {show_interval(record.validation_accuracy, 90)})" in result.stdout
    words = ["--validation-fraction", "0", "--layers", "1", "--limit", "100", "--out", tmp_path / "all"]
    assert rescnet("train", "digits", *small, *words).exit_code == 0
    message = refused("evaluate", tmp_path / "all")
    assert "digits must have test or validation images, got none. Use --split train" in message
    assert rescnet("evaluate", tmp_path / "all", "--split", "train").exit_code == 0


def test_held_out_images_that_have_changed_are_not_trusted(rescnet, refused, small, save_png, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        for number in range(12):
            save_png(tmp_path / "set" / name / f"{number}.png", rng.integers(0, 256, (8, 8)))
    words = ["--bank", "pca", "--layers", 1, "--out", tmp_path / "m"]
    assert rescnet("train", tmp_path / "set", *small, *words).exit_code == 0
    assert rescnet("evaluate", tmp_path / "m").exit_code == 0
    save_png(tmp_path / "set" / "a" / "00.png", rng.integers(0, 256, (8, 8)))
    assert "set must not have changed since training" in refused("evaluate", tmp_path / "m")


def test_other_images_are_evaluated_by_the_names_of_their_classes(
    rescnet, refused, model, pictures, save_png, tmp_path
):
    files = {name: sorted((pictures / "test" / name).iterdir()) for name in ("three", "seven")}
    for name, paths in files.items():
        (tmp_path / "two" / name).mkdir(parents=True)
        for path in paths:
            (tmp_path / "two" / name / path.name).write_bytes(path.read_bytes())
    facts = json.loads(rescnet("evaluate", model, tmp_path / "two", "--json").stdout)
    assert facts["split"] == "train" and facts["images"] == sum(map(len, files.values()))
    assert {row["class"] for row in facts["per_class"] if row["images"]} == {"three", "seven"}
    assert facts["accuracy"] > 0.5
    save_png(tmp_path / "two" / "owl" / "1.png", np.zeros((8, 8)))
    message = refused("evaluate", model, tmp_path / "two")
    assert "classes of two must be those of the model (eight, five" in message and "got 'owl'" in message
    save_png(tmp_path / "large" / "three" / "1.png", np.zeros((9, 9)))
    save_png(tmp_path / "large" / "three" / "2.png", np.zeros((9, 9, 3)))
    result = rescnet("evaluate", model, tmp_path / "large")
    assert result.exit_code == 0 and "2 images of large" in result.stdout
    assert "images are resized and centre-cropped to 8×8 (height×width); found 9×9" in result.stderr
    np.savez(tmp_path / "large.npz", x=np.zeros((2, 9, 9), np.uint8), y=np.array([0, 1]))
    message = refused("evaluate", model, tmp_path / "large.npz")
    assert "must have 8×8 grey images for this model, got 9×9 grey ones" in message
    assert "split must be one of test, validation, train, got 'tests'" in refused("evaluate", model, "--split", "tests")


def test_training_images_among_others_are_counted(rescnet, model, pictures, tmp_path):
    images = data.load(pictures)
    kept, held = 60, 100
    names = np.array(images.class_names)
    mixed = {
        "x": np.concatenate([images.train.images[:kept], images.test.images[:held]]),
        "y": names[np.concatenate([images.train.labels[:kept], images.test.labels[:held]])],
    }
    np.savez(tmp_path / "mixed.npz", **mixed)
    facts = json.loads(rescnet("evaluate", model, tmp_path / "mixed.npz", "--json").stdout)
    of_test = json.loads(rescnet("evaluate", model, "--json").stdout)
    of_train = rescnet("evaluate", model, "--split", "train")
    trained = facts["trained_on"]  # a fifth of the others was held out for validation
    assert 30 < trained < kept and of_test["trained_on"] == 0
    said = rescnet("evaluate", model, tmp_path / "mixed.npz").stdout
    assert (
        f"The model was trained on {trained} of these images. Accuracy of the other {kept + held - trained}: " in said
    )
    assert "The model was trained on all of these images." in of_train.stdout
    assert "trained on" not in rescnet("evaluate", model).stdout
    loaded = load_model(model)
    del loaded.about["training_checksums"]
    save_model(loaded, tmp_path / "old")
    assert "does not record its training images" in rescnet("evaluate", tmp_path / "old", tmp_path / "mixed.npz").stdout


def test_a_model_made_in_python_needs_its_images_named(refused, model, tmp_path):
    loaded = load_model(model)
    loaded.about.clear()
    save_model(loaded, tmp_path / "m")
    assert "does not record what it was trained on" in refused("evaluate", tmp_path / "m")


@pytest.mark.slow
def test_a_report_on_a_model_made_in_python_names_remedies(refused, rescnet, model, pictures, tmp_path):
    """Every remedy that is named is one."""
    loaded = load_model(model)
    loaded.about.clear()
    save_model(loaded, tmp_path / "m")
    message = refused("report", tmp_path / "m")
    assert "Name a SOURCE with test images, or use --without-images" in message
    of_one_split = pictures / "train", "--out", tmp_path / "one.html"
    assert rescnet("report", tmp_path / "m", *of_one_split).exit_code == 0  # they are new to the model
    assert rescnet("report", tmp_path / "m", pictures, "--out", tmp_path / "shown.html").exit_code == 0
    assert rescnet("report", tmp_path / "m", "--without-images").exit_code == 0


def test_info_shows_the_facts_of_a_model(rescnet, model):
    result = rescnet("info", model)
    network, history = load_model(model).network, load_model(model).history
    numbers = [
        layer.weights.numel() + layer.bias.numel() + layer.head.weights.numel() + layer.head.bias.numel()
        for layer in network.layers
    ]
    facts = json.loads(rescnet("info", model, "--json").stdout)
    assert facts["parameters"] == sum(numbers)
    assert facts["bytes"] == sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    assert facts["accuracy"]["last"]["test"] == history[-1].test_accuracy
    assert facts["accuracy"]["best_on_validation"]["layer"] == history.best_layer()
    assert facts["differs_from_preset"]["filters"] == 6 and "ridge" not in facts["differs_from_preset"]
    for words in ("3 layers", f"{sum(numbers):,} parameters", "2 to 3, each", "6 of 3×3×7", "10 classes: eight, five"):
        assert words in result.stdout
    for words in (
        "and last" if history.best_layer() == 3 else "3, last",
        "trained on  digits; cpu",
        "the preset paper, except layers 3, ",
    ):
        assert words in result.stdout


def test_info_shows_grey_layers(rescnet, blobs, small, tmp_path):
    np.savez(tmp_path / "blobs.npz", images=blobs[0][:60], labels=blobs[1][:60])
    options = ["--first-filter-size", 3, "--stack-depth", 1, "--grey-stack-every", 2]
    trained = rescnet("train", tmp_path / "blobs.npz", *small, *options, "--out", tmp_path / "model")
    assert "7×7 in grey stacks" in trained.stdout + trained.stderr
    shown = " ".join(rescnet("info", tmp_path / "model").stdout.split())
    assert "stopped because" not in shown  # all layers were added
    assert "1, 3, each 12×12×3 6 of 3×3×3" in shown
    assert " 2 12×12×3, grey 6 of 7×7×3" in shown


def test_datasets_are_listed(rescnet, tmp_path):
    rows = [json.loads(line) for line in rescnet("datasets", "--json", "--root", tmp_path).stdout.splitlines()]
    assert [row["name"] for row in rows] == [row.name for row in data.describe(tmp_path)]
    assert [row["name"] for row in rows if row["present"]] == ["digits"]
    lines = [line.split() for line in rescnet("datasets", "--root", tmp_path).stdout.splitlines()]
    assert ["digits", "10", "8×8×1", "1,797", "–", "–", "here"] in lines
    assert ["svhn", "10", "32×32×3", "73,257", "26,032", "246", "MB", "ufldl.stanford.edu"] in lines


def test_a_data_set_is_described(rescnet, refused, tmp_path):
    folder = tmp_path / "K49"
    folder.mkdir()
    for part in ("train", "test"):  # found, not read
        for name in ("imgs", "labels"):
            (folder / f"k49-{part}-{name}.npz").touch()
    shown = rescnet("datasets", "k49", "--root", tmp_path).stdout
    assert "k49: 49 classes, 28×28×1, 232,365 training images, 38,547 test images" in shown
    assert "k49-test-labels.npz, MD5 4da6f7a62e67a832d5eb1bd85c5ee448" in shown
    assert json.loads(rescnet("datasets", "k49", "--json", "--root", tmp_path).stdout)["present"]
    assert "Did you mean 'k49'" in refused("datasets", "k-49")


@pytest.mark.slow
def test_a_report_is_written_once(rescnet, refused, model, tmp_path):
    assert rescnet("report", model, "--out", tmp_path / "r.html").exit_code == 0
    assert "<html" in (tmp_path / "r.html").read_text()
    assert "r.html. Use another name, or --overwrite." in refused("report", model, "--out", tmp_path / "r.html")
    assert rescnet("report", model, "--without-images", "--out", tmp_path / "r.html", "--overwrite").exit_code == 0


def test_every_command_reads_a_damaged_model_in_one_sentence(refused, model, pictures, tmp_path):
    save_model(load_model(model), tmp_path / "m")
    layer = tmp_path / "m" / "layers" / "00002.safetensors"
    layer.write_bytes(layer.read_bytes()[:-1])
    for words in (["evaluate"], ["predict", pictures / "test"], ["report", "--out", tmp_path / "r.html"]):
        assert "00002.safetensors must have" in refused(words[0], tmp_path / "m", *words[1:])
    (tmp_path / "m" / "model.json").write_text("{}")
    for words in (["evaluate"], ["predict", pictures / "test"], ["info"]):
        assert "model.json was not written by rescnet" in refused(words[0], tmp_path / "m", *words[1:])
    assert not (tmp_path / "r.html").exists()


def test_missing_training_images_are_named(rescnet, refused, pictures, small, tmp_path):
    shutil.copytree(pictures, tmp_path / "pictures")
    rescnet("train", tmp_path / "pictures", *small, "--limit", 60, "--out", tmp_path / "m")
    (tmp_path / "pictures").rename(tmp_path / "elsewhere")
    message = f"the training images of {tmp_path / 'm'} must exist, got {tmp_path / 'pictures'}. Name their new place"
    assert message in " ".join(refused("evaluate", tmp_path / "m").split())
    assert rescnet("evaluate", tmp_path / "m", tmp_path / "elsewhere").exit_code == 0


def test_a_limit_takes_some_images_of_each_class(rescnet, refused, model):
    facts = json.loads(rescnet("evaluate", model, "--json", "--limit", 30).stdout)
    assert 25 <= facts["images"] <= 35
    assert min(row["images"] for row in facts["per_class"]) >= 2
    assert json.loads(rescnet("evaluate", model, "--json", "--limit", 999).stdout)["images"] == 100
    assert "limit must be at least 1, got 0" in refused("evaluate", model, "--limit", 0)
