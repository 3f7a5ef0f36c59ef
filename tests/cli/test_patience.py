"""Every command uses a run with patience at its best validation depth."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from rescnet.model import Model
from rescnet.network.history import StopReason
from rescnet.network.network import Network
from rescnet.network.stack import LayerStack
from rescnet.report import write_report
from rescnet.saving import ModelFolder, ModelWriter, layout, load_model, read_run, save_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def options(small):
    return [*small, "--pyramid", 1, "--layers", 30, "--patience", 2, "--limit", 120]


@pytest.fixture(scope="module")
def run(rescnet, pictures, options, tmp_path_factory):
    """The folder of a run that patience stopped, its best depth, all its layers, and what was printed."""
    place = tmp_path_factory.mktemp("patience") / "run"
    result = rescnet("train", pictures, *options, "--out", place)
    history = ModelFolder.open(place).history()
    assert history.stopped is StopReason.PATIENCE
    return place, history.best_layer(), len(history), result.stdout


@pytest.fixture
def copy(run, tmp_path):
    shutil.copytree(run[0], tmp_path / "copy")
    return tmp_path / "copy"


def some_images(place):
    shape = ModelFolder.open(place).image_shape
    return np.random.default_rng(0).integers(0, 256, (9, *shape)).astype(np.uint8)


def test_refit_trains_again_on_all_images(run, rescnet, refused, pictures, options, small, tmp_path):
    """It has the layers of a run on all images with the best depth, and can be resumed with more."""
    _, best, _, _ = run
    result = rescnet("train", pictures, *options, "--refit", "--out", tmp_path / "again")
    assert f"training again on all 120 images, with {best} layers" in result.stdout
    rescnet(
        "train",
        pictures,
        *options,
        "--layers",
        best,
        "--patience",
        0,
        "--validation-fraction",
        0,
        "--out",
        tmp_path / "plain",
    )
    found, plain = (ModelFolder.open(tmp_path / name) for name in ("again", "plain"))
    assert found.about["images"] == plain.about["images"] == {"train": 120, "test": 100}
    assert [r.train_accuracy for r in found.records] == [r.train_accuracy for r in plain.records]
    assert rescnet("train", "--resume", tmp_path / "again", "--layers", best + 1).exit_code == 0
    assert len(ModelFolder.open(tmp_path / "again").records) == best + 1
    refused("train", pictures, *small, "--validation-fraction", 0, "--refit")


def test_every_command_uses_the_best_depth(run, rescnet, pictures, tmp_path):
    place, best, layers, printed = run
    assert best == layers - 2
    phrase = f"predicts with the first {best} of {layers} layers, the best validation depth"
    assert phrase in printed.splitlines()[-1]
    record = ModelFolder.open(place).records[best - 1]
    facts = json.loads(rescnet("evaluate", place, "--json").stdout)
    assert (facts["layers"], facts["accuracy"]) == (best, pytest.approx(record.test_accuracy))
    picture = next(pictures.rglob("*.png"))
    plain, shorter, whole = (
        rescnet("predict", place, picture, "--json", *words).stdout
        for words in ([], ["--layers", best], ["--layers", layers])
    )
    assert plain == shorter != whole
    assert f"all.pt2: {best} layer" in rescnet("export", place, "--out", tmp_path / "all.pt2").stdout
    assert f"{layers} layers; predicts with the first {best}" in rescnet("info", place).stdout
    assert json.loads(rescnet("info", place, "--json").stdout)["used_layers"] == best


def test_layers_that_are_asked_for_are_used(run, rescnet):
    place, _, layers, _ = run
    facts = json.loads(rescnet("evaluate", place, "--layers", layers, "--json").stdout)
    assert facts["accuracy"] == pytest.approx(ModelFolder.open(place).records[-1].test_accuracy)


def test_json_says_the_depth(rescnet, pictures, options, run, tmp_path):
    _, best, layers, _ = run
    result = rescnet("train", pictures, *options, "--json", "--out", tmp_path / "m")
    *_, summary = map(json.loads, result.stdout.splitlines())
    assert (summary["used_layers"], summary["layers"]) == (best, layers)


def test_without_patience_all_layers_are_used(rescnet, pictures, small, tmp_path):
    result = rescnet("train", pictures, *small, "--out", tmp_path / "m")
    assert result.stdout.splitlines()[-1].endswith("predicts with all 3 layers")


def test_a_resumed_run_continues_after_the_last_layer(copy, run, rescnet):
    """Layers after the best are kept; with patience 0 they count again."""
    _, _, layers, _ = run
    files = [(copy / layout.layer_name(number)).read_bytes() for number in range(1, layers + 1)]
    result = rescnet("train", "--resume", copy, "--patience", 0, "--layers", layers + 1)
    assert f"continuing after layer {layers}" in result.stdout
    assert [(copy / layout.layer_name(number)).read_bytes() for number in range(1, layers + 1)] == files
    assert len(load_model(copy).network.layers) == layers + 1


def test_more_layers_than_patience_allows_are_refused(copy, run, refused, rescnet):
    """The remedy in the message works."""
    _, _, layers, _ = run
    before = (copy / "model.json").read_bytes()
    message = refused("train", "--resume", copy, "--layers", 40)
    assert f"stopped after {layers} layers because the validation accuracy no longer rises" in message
    assert "Add --patience 0 or more than 2." in message
    assert (copy / "model.json").read_bytes() == before
    assert rescnet("train", "--resume", copy, "--layers", 40, "--patience", 3).exit_code == 0
    assert len(ModelFolder.open(copy).records) > layers


def test_a_readout_is_fitted_to_the_best_depth(copy, run, rescnet, pictures, options, tmp_path):
    """It is that of a run which ended there, and goes with that depth only."""
    _, best, layers, _ = run
    result = rescnet("train", "--resume", copy, "--readout", "kernel")
    assert f"with the kernel readout of the first {best} layers: validation accuracy" in result.stdout
    ends_there = tmp_path / "short"
    rescnet("train", pictures, *options, "--layers", best, "--readout", "kernel", "--out", ends_there)
    images = some_images(copy)
    assert torch.equal(load_model(copy).network.outputs(images), load_model(ends_there).network.outputs(images))
    assert load_model(copy, layers=layers).network.readout is None
    facts = json.loads(rescnet("evaluate", copy, "--json").stdout)
    assert facts["readout"] and facts["layers"] == best
    assert facts["accuracy"] == pytest.approx(ModelFolder.open(copy).history().readout.test_accuracy)


def test_another_patience_reads_out_another_depth(copy, run, rescnet):
    _, _, layers, _ = run
    rescnet("train", "--resume", copy, "--readout", "kernel")
    rescnet("train", "--resume", copy, "--patience", 0, "--layers", layers)
    network = load_model(copy).network
    assert network.readout is not None and len(network.layers) == layers


def test_a_depth_chosen_by_hand_is_saved(run, tmp_path):
    place, _, layers, _ = run
    model = load_model(place, layers)
    save_model(model, tmp_path / "all")
    again = load_model(tmp_path / "all")
    assert len(again.network.layers) == layers
    assert torch.equal(again.network.outputs(some_images(place)), model.network.outputs(some_images(place)))


def test_a_readout_of_a_damaged_layer_is_not_kept(copy, rescnet):
    """Ctrl-C before the layer is learned again leaves a model of those before it."""
    rescnet("train", "--resume", copy, "--readout", "kernel", "--patience", 0, "--no-stop-at-zero-error")
    run = read_run(copy)
    last = run.folder.path / layout.layer_name(len(run.layers))
    run.lock.release()
    last.write_bytes(last.read_bytes()[:-1])
    run = read_run(copy)
    names = run.folder.class_names
    network = Network(LayerStack(run.folder.config, run.folder.image_shape, len(names)))
    ModelWriter(copy, network, names, {}, resumed=run).finish(StopReason.INTERRUPTED)
    network = load_model(copy).network
    assert network.readout is None and len(network.layers) == len(run.layers)


def test_a_readout_of_another_depth_is_not_kept(copy, rescnet):
    """Ctrl-C before the new one is fitted leaves none, rather than one that does not fit."""
    rescnet("train", "--resume", copy, "--readout", "kernel")
    run = read_run(copy)
    config = replace(run.folder.config, patience=0)
    names = run.folder.class_names
    network = Network(LayerStack(config, run.folder.image_shape, len(names)))
    ModelWriter(copy, network, names, {}, resumed=run).finish(StopReason.INTERRUPTED)
    assert load_model(copy).network.readout is None


def test_a_model_in_python_is_saved_whole_and_used_as_deep(run, tmp_path):
    place, best, layers, _ = run
    whole = load_model(place, layers=layers)
    whole.network.used_layers = best  # as ``train`` returns it
    save_model(Model(whole.network, whole.history, whole.class_names), tmp_path / "m")
    assert len(ModelFolder.open(tmp_path / "m").records) == layers
    images = some_images(place)
    assert torch.equal(load_model(tmp_path / "m").network.outputs(images), whole.network.outputs(images))
    assert not torch.equal(whole.network.outputs(images, layers), whole.network.outputs(images))
    page = write_report(whole, tmp_path / "page.html").read_text()
    assert f"The network was trained to {layers} layers. Predictions use the first {best}." in page
