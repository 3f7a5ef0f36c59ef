"""A run that was stopped is resumed, and ends with the network of an uninterrupted run."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rescnet.saving import ModelFolder, layout, load_model, read_run, save_model
from rescnet.saving.folder import FolderLock

pytestmark = pytest.mark.slow

LAYERS = 12


def layer_files(place):
    return [file.read_bytes() for file in sorted((place / "layers").iterdir())]


def accuracies(place):
    return [(r.train_accuracy, r.validation_accuracy, r.test_accuracy) for r in ModelFolder.open(place).records]


@pytest.fixture(scope="module")
def options(small):
    return [*small, "--layers", LAYERS, "--limit", 100, "--bank", "pca + stacked-lda", "--tolerance", 0.1]


@pytest.fixture(scope="module")
def whole(rescnet, pictures, options, tmp_path_factory):
    """An uninterrupted run."""
    place = tmp_path_factory.mktemp("whole") / "run"
    assert rescnet("train", pictures, *options, "--out", place).exit_code == 0
    return place


@pytest.fixture
def begun(whole, tmp_path):
    """The same run as a kill would have left it, not sealed."""
    place = tmp_path / "run"
    shutil.copytree(whole, place)
    content = json.loads((place / "model.json").read_text())
    content["sealed"] = None
    (place / "model.json").write_text(json.dumps(layout.sign(content)))
    return place


def cut(place, layers, torn=b""):
    """Leave the first layers, as if the run had been killed after them, and part of a line."""
    lines = (place / "history.jsonl").read_bytes().splitlines(keepends=True)
    (place / "history.jsonl").write_bytes(b"".join(lines[:layers]) + torn)
    for number in range(layers + 1, LAYERS + 1):
        (place / layout.layer_name(number)).unlink()


def test_killed_at_random_moments_it_ends_the_same_bit_for_bit(pictures, options, whole, tmp_path):
    script = Path(__file__).with_name("kill_at_random.py")
    words = [sys.executable, script, pictures, tmp_path, 12, 7, *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)
    assert sum(run["kills"] for run in runs) >= 12
    assert len({(run["place"], layers) for run in runs for layers in run["layers"]}) > 4  # at different layers
    for run in runs:
        assert layer_files(Path(run["place"])) == layer_files(whole)
        assert accuracies(Path(run["place"])) == accuracies(whole)
        assert ModelFolder.open(run["place"]).about["stopped"] == "all layers were added"


@pytest.mark.parametrize("torn", [b"", b'{"layer": 6, "train_acc', b'{"layer": 6}\n'], ids=["clean", "torn", "altered"])
def test_a_line_that_was_not_written_to_its_end_is_redone(torn, begun, whole, rescnet):
    cut(begun, 5, torn)
    result = rescnet("train", "--resume", begun)
    assert result.exit_code == 0
    assert ("history.jsonl is damaged, so layer 6 is learned again" in result.stdout) == bool(torn)
    assert "continuing after layer 5" in result.stdout
    assert layer_files(begun) == layer_files(whole)
    assert len(ModelFolder.open(begun).records) == LAYERS


def cut_short(file):
    file.write_bytes(file.read_bytes()[:100])


def flip_a_bit(file):
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [cut_short, flip_a_bit, Path.unlink], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("sealed", [True, False])
def test_a_damaged_last_layer_is_redone_and_an_older_one_refused(damage, sealed, begun, whole, rescnet, refused):
    if sealed:
        shutil.copy(whole / "model.json", begun / "model.json")
    damage(begun / layout.layer_name(LAYERS))
    result = rescnet("train", "--resume", begun)
    assert f"00012.safetensors is damaged, so layer {LAYERS} is learned again" in result.stdout
    assert layer_files(begun) == layer_files(whole)
    damage(begun / layout.layer_name(4))
    before = {file: file.read_bytes() for file in begun.rglob("*") if file.is_file()}
    assert "00004.safetensors" in refused("train", "--resume", begun)
    assert {file: file.read_bytes() for file in begun.rglob("*") if file.is_file()} == before


def test_an_altered_line_in_the_middle_is_refused(begun, refused):
    lines = (begun / "history.jsonl").read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"layer": 4', b'"layer": 5')
    (begun / "history.jsonl").write_bytes(b"".join(lines))
    assert "history.jsonl is cut short or altered after line 3" in refused("train", "--resume", begun)


def test_a_full_disk_loses_nothing(pictures, options, whole, rescnet, tmp_path, monkeypatch):
    original, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    place = tmp_path / "run"
    result = rescnet("train", pictures, *options, "--out", place)
    assert result.exit_code == 1 and "cannot be written (no space left on device). Free space there" in result.stderr
    assert str(place / "layers") in result.stderr or str(place / "history.jsonl") in result.stderr
    run = read_run(place)
    finished = len(run.layers)
    run.lock.release()
    assert 2 < finished < LAYERS and len(load_model(place).network.layers) == finished
    assert not list(place.rglob("*.part"))
    monkeypatch.setattr(os, "fsync", original)
    assert rescnet("train", "--resume", place).exit_code == 0
    assert layer_files(place) == layer_files(whole)


def test_too_little_disk_is_refused_before_the_first_layer(pictures, small, refused, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=5000))
    message = refused("train", pictures, *small, "--out", tmp_path / "run")
    assert "free for the layers, got 5 kB. Free space" in message
    assert not (tmp_path / "run").exists()


def test_a_limit_on_the_size_of_files_names_the_file(pictures, options, whole, rescnet, tmp_path):
    place, file = tmp_path / "run", layout.layer_name(1)
    limit = (whole / file).stat().st_size // 2
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        result = rescnet("train", pictures, *options, "--out", place)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert result.exit_code == 1
    assert f"error: the machine failed: {place / file} cannot be written (file too large). Free space" in result.stderr
    assert not list(place.rglob("*.part"))


def test_fewer_layers_than_there_are_is_one_sentence(begun, refused):
    message = refused("train", "--resume", begun, "--layers", 3)
    assert f"layers must be at least {LAYERS}, the layers of {begun}, got 3. To use fewer, give --layers 3" in message


def test_one_writer_at_a_time(begun, pictures, small, refused, rescnet):
    lock = FolderLock(begun)
    for words in (["--resume", begun], [pictures, *small, "--out", begun, "--overwrite"]):
        assert "is being written to by another process. Wait for it" in refused("train", *words)
    lock.release()
    assert rescnet("train", "--resume", begun).exit_code == 0


def test_more_layers_can_be_asked_for(begun, whole, rescnet, pictures, options, tmp_path, monkeypatch):
    first = json.loads((begun / "model.json").read_text())["about"]["command"]
    monkeypatch.setattr("sys.argv", ["rescnet", "train", "and so on"])
    result = rescnet("train", "--resume", begun, "--layers", LAYERS + 2, "--json")
    commands = json.loads((begun / "model.json").read_text())["about"]["command"]
    assert commands == f"{first} && rescnet train 'and so on'"  # both made it
    summary = json.loads(result.stdout.splitlines()[-1])
    assert summary["layers"] == LAYERS + 2
    assert rescnet("train", pictures, *options, "--layers", LAYERS + 2, "--out", tmp_path / "long").exit_code == 0
    assert layer_files(begun) == layer_files(tmp_path / "long")


@pytest.mark.parametrize("words", [[], ["--filters", 6, "--layers", LAYERS]])
def test_a_complete_run_is_left_alone(whole, rescnet, words, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")}
    result = rescnet("train", "--resume", tmp_path / "run", *words)
    assert result.exit_code == 0 and "run is complete: 12 layers; all layers were added." in result.stdout
    assert "for example --layers 24" in result.stdout
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")} == before
    summary = json.loads(rescnet("train", "--resume", tmp_path / "run", "--json").stdout)
    assert summary["layers"] == LAYERS and summary["stopped"] == "all layers were added"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--filters", 7], "filters must stay 6, got 7. Leave the option out"),
        (["--seed", 3], "seed must stay 0, got 3. Leave the option out"),
        (["--dtype", "float64"], "dtype must stay 'float32', got 'float64'. Leave the option out"),
        (["--limit", 7], "--limit must not be used with --resume"),
        (["--out", "x"], "--out must not be used with --resume"),
        (["digits"], "images of digits must be those that"),
    ],
)
def test_another_configuration_is_refused(words, message, begun, refused):
    before = (begun / "model.json").read_bytes()
    assert message in refused("train", *words, "--resume", begun)
    assert (begun / "model.json").read_bytes() == before


def test_a_repeated_option_is_no_change(begun, rescnet):
    first = json.loads((begun / "model.json").read_text())["about"]["command"]
    assert rescnet("train", "--resume", begun, "--filters", 6).exit_code == 0
    assert json.loads((begun / "model.json").read_text())["about"]["command"] == first


def test_images_that_were_moved_are_found_by_their_new_name(small, rescnet, refused, pictures, tmp_path):
    shutil.copytree(pictures, tmp_path / "mine")
    assert rescnet("train", tmp_path / "mine", *small, "--layers", 1, "--out", tmp_path / "run").exit_code == 0
    shutil.move(tmp_path / "mine", tmp_path / "yours")
    assert "mine" in refused("train", "--resume", tmp_path / "run", "--layers", 2)
    assert rescnet("train", tmp_path / "yours", "--resume", tmp_path / "run", "--layers", 2).exit_code == 0
    assert len(ModelFolder.open(tmp_path / "run").records) == 2


def test_changed_images_are_refused(small, rescnet, refused, pictures, save_png, tmp_path):
    shutil.copytree(pictures, tmp_path / "mine")
    assert rescnet("train", tmp_path / "mine", *small, "--out", tmp_path / "run").exit_code == 0
    changed = next((tmp_path / "mine" / "test").rglob("*.png"))
    save_png(changed, np.full((8, 8), 77))
    message = refused("train", "--resume", tmp_path / "run", "--layers", 5)
    assert "the test images of mine must be those that" in message and "started with" in message
    assert len(ModelFolder.open(tmp_path / "run").records) == 3


def test_runs_that_cannot_be_resumed(refused, tmp_path):
    assert "there is no model" in refused("train", "--resume", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "no layer was finished there. Start a new run" in refused("train", "--resume", tmp_path / "empty")


def test_more_layers_after_zero_error_are_refused(small, rescnet, refused, pictures, tmp_path):
    stops = [word for word in small if word != "--no-stop-at-zero-error"]
    words = [*stops, "--stop-at-zero-error", "--limit", 40, "--layers", 20]
    assert rescnet("train", pictures, *words, "--out", tmp_path / "run").exit_code == 0
    folder = ModelFolder.open(tmp_path / "run")
    assert folder.about["stopped"] == "no training image is wrong"
    message = refused("train", "--resume", tmp_path / "run", "--layers", 30)
    assert "because no training image is wrong" in message and "Add --no-stop-at-zero-error" in message
    more = len(folder.records) + 1
    words = ["--layers", more, "--no-stop-at-zero-error"]
    assert rescnet("train", "--resume", tmp_path / "run", *words).exit_code == 0
    assert len(ModelFolder.open(tmp_path / "run").records) == more


def test_a_model_saved_from_python_is_not_resumed(whole, refused, tmp_path):
    model = load_model(whole)
    model.about.clear()
    save_model(model, tmp_path / "mine")
    for words in ([], ["digits"]):
        message = refused("train", *words, "--resume", tmp_path / "mine", "--layers", 40)
        assert "must be saved by rescnet train to be resumed: it does not record its training images" in message
        assert "Continue it in Python" in message


@pytest.mark.parametrize("gone", ["model.json", "history.jsonl"])
def test_a_lost_file_is_named_and_nothing_is_changed(gone, small, rescnet, refused, pictures, tmp_path):
    place = tmp_path / "m"
    rescnet("train", pictures, *small, "--out", place)
    (place / gone).unlink()
    before = sorted(path.name for path in place.rglob("*"))
    assert f"{gone} is missing" in refused("train", "--resume", place)
    assert sorted(path.name for path in place.rglob("*")) == before


def test_a_run_killed_before_its_first_layer_leaves_its_place_free(small, rescnet, pictures, tmp_path):
    (tmp_path / "run" / "layers").mkdir(parents=True)
    (tmp_path / "run" / "history.jsonl").touch()
    assert rescnet("train", pictures, *small, "--layers", 1, "--out", tmp_path / "run").exit_code == 0
