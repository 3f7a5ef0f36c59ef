"""The kernel readout through the command line: trained, saved, shown, added later, and refused without a kernel."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from digits import IMAGES, LABELS
from PIL import Image

from rescnet import Config, Model
from rescnet.base.text import show_bytes
from rescnet.network.history import StopReason
from rescnet.network.network import Network
from rescnet.network.stack import LayerStack
from rescnet.saving import ModelFileError, ModelFolder, ModelWriter, layout, load_model, read_run, save_model
from rescnet.training.readout.iterative import PROBES
from rescnet.training.run import TrainingRun

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def options(small):
    return [*small, "--readout", "kernel", "--limit", 120]


@pytest.fixture(scope="module")
def place(rescnet, pictures, options, tmp_path_factory):
    folder = tmp_path_factory.mktemp("readout") / "model"
    result = rescnet("train", pictures, *options, "--out", folder)
    assert result.exit_code == 0 and "with the kernel readout: validation accuracy" in result.stdout
    assert "the model stores its training images" not in " ".join(result.stdout.split())
    return folder


def test_info_shows_the_readout(place, rescnet):
    """Its accuracy is in the history that is read back, and in what ``info`` prints."""
    record = ModelFolder.open(place).history().readout
    assert record is not None and 0 < record.validation_accuracy <= 1
    shown = rescnet("info", place).stdout
    assert "with the kernel readout" in shown and f"{100 * record.validation_accuracy:.2f}" in shown
    assert json.loads(rescnet("info", place, "--json").stdout)["accuracy"]["readout"]["train"] is None


def test_evaluate_finds_the_accuracy_of_training(place, rescnet):
    """What is loaded predicts what was trained; with fewer layers there is no readout."""
    record = ModelFolder.open(place).history().readout
    whole = json.loads(rescnet("evaluate", place, "--json").stdout)
    fewer = json.loads(rescnet("evaluate", place, "--layers", 2, "--json").stdout)
    assert (whole["readout"], fewer["readout"]) == (True, False)
    assert whole["accuracy"] == pytest.approx(record.test_accuracy)
    assert "and the kernel readout" in rescnet("evaluate", place).stdout


def test_pictures_are_predicted_with_it(place, pictures, rescnet, tmp_path):
    """A picture is of the class the network with its readout says, and that of its layers alone may differ."""
    files = sorted(pictures.rglob("*.png"))[:40]
    answers = [json.loads(line) for line in rescnet("predict", place, *files, "--json").stdout.splitlines()]
    network, names = load_model(place).network, load_model(place).class_names
    images = np.stack([np.asarray(Image.open(file)) for file in files])[:, None]
    assert [answer["classes"][0]["class"] for answer in answers] == [
        names[which] for which in network.predict_indices(images)
    ]


def test_a_network_gets_a_readout_later(rescnet, pictures, small, place, tmp_path):
    """A run without a readout is resumed with one, and equals the model trained with it."""
    folder = tmp_path / "model"
    rescnet("train", pictures, *small, "--limit", 120, "--out", folder)
    assert load_model(folder).network.readout is None
    rescnet("train", "--resume", folder, "--readout", "kernel")
    images = np.random.default_rng(0).integers(0, 256, (5, *load_model(place).network.image_shape)).astype(np.uint8)
    assert torch.equal(load_model(folder).network.outputs(images), load_model(place).network.outputs(images))


def test_more_layers_get_a_readout_of_their_own(rescnet, pictures, options, tmp_path):
    """A resumed run fits its readout again; without one its file is removed."""
    folder = tmp_path / "model"
    rescnet("train", pictures, *options, "--layers", 1, "--out", folder)
    before = load_model(folder).network.readout.coefficients
    rescnet("train", "--resume", folder, "--layers", 2)
    assert not torch.equal(load_model(folder).network.readout.coefficients, before)
    rescnet("train", "--resume", folder, "--readout", "heads")
    assert load_model(folder).network.readout is None and not (folder / "readout.safetensors").exists()


def test_loo_correction_is_added_later(place, rescnet, pictures, options, tmp_path):
    """The readout is fitted again, and the outputs are corrected."""
    folder = tmp_path / "model"
    rescnet("train", pictures, *options, "--out", folder)
    assert rescnet("train", "--resume", folder, "--loo-correction").exit_code == 0
    network, before = load_model(folder).network, load_model(place).network
    images = np.random.default_rng(0).integers(0, 256, (5, *network.image_shape)).astype(np.uint8)
    correction = network.readout.correction
    torch.testing.assert_close(network.outputs(images), correction(before.outputs(images)), rtol=0, atol=1e-5)
    assert "loo_correction" in rescnet("info", folder).stdout


def test_its_options_are_refused_without_it(model, refused, pictures, small, tmp_path):
    """In a new run and in a resumed one."""
    message = "loo_correction must be used with readout 'kernel', got readout 'heads'"
    assert message in refused("train", pictures, *small, "--loo-correction", "--out", tmp_path / "m")
    assert message in refused("train", "--resume", model, "--loo-correction")


def test_a_damaged_readout_is_named(place, rescnet, pictures, options, tmp_path):
    """A byte that changed is found, and the file is named."""
    folder = tmp_path / "model"
    rescnet("train", pictures, *options, "--out", folder)
    file = folder / "readout.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(ModelFileError, match=r"readout\.safetensors must have the SHA-256 that was saved, got another"):
        load_model(folder)
    assert load_model(folder, layers=2).network.readout is None


def test_it_is_exported(place, rescnet, tmp_path, monkeypatch):
    """The network to export has it; ``export/test_export.py`` compares its program."""
    exported = []

    def export(network, target, *_):
        target.touch()
        exported.append(network)
        return 0.0

    monkeypatch.setattr("rescnet.export.files._export", export)
    network = load_model(place).network
    images = np.random.default_rng(0).integers(0, 256, (5, *network.image_shape)).astype(np.uint8)
    done = rescnet("export", place, "--out", tmp_path / "all.pt2")
    assert done.exit_code == 0 and f"{len(network.layers)} layer" in done.stdout
    assert exported[0].readout is not None
    assert torch.equal(exported[0].outputs(images), network.outputs(images))


def test_the_json_summary_has_it(rescnet, pictures, options, tmp_path):
    """Scripts find its accuracy on the last line."""
    lines = rescnet("train", pictures, *options, "--json", "--out", tmp_path / "model").stdout.splitlines()
    assert 0 < json.loads(lines[-1])["readout"]["validation_accuracy"] <= 1


def test_the_report_has_it(place, rescnet, tmp_path):
    """The accuracy of the page is that of ``evaluate``."""
    assert rescnet("report", place, "--out", tmp_path / "page.html").exit_code == 0
    page = (tmp_path / "page.html").read_text()
    found = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["evaluation"]
    facts = json.loads(rescnet("evaluate", place, "--json").stdout)
    assert found["readout"] and found["accuracy"] == facts["accuracy"] and found["interval"] == facts["interval"]
    assert found["confusions"][-1]["counts"] == np.ravel(facts["confusion"]).tolist()
    assert "A kernel readout follows layer" in page


def test_first_layers_are_saved_and_loaded_again(place, tmp_path):
    """A model of fewer layers has no readout, and is whole without it."""
    save_model(load_model(place, layers=2), tmp_path / "two")
    assert load_model(tmp_path / "two").network.readout is None
    save_model(load_model(place), tmp_path / "all")
    images = np.zeros((2, *load_model(place).network.image_shape), np.uint8)
    assert torch.equal(load_model(tmp_path / "all").network.outputs(images), load_model(place).network.outputs(images))


def test_a_resumed_run_keeps_its_readout_until_it_has_another(place, tmp_path):
    """Ctrl-C before a further layer is done loses nothing; a readout of other options is not kept."""
    folder = tmp_path / "model"
    shutil.copytree(place, folder)
    for changes, is_kept in (({"layers": 9}, True), ({"kernel_width": 2.0}, False)):
        run = read_run(folder)
        config = replace(run.folder.config, **changes)
        names = run.folder.class_names
        ModelWriter(
            folder, Network(LayerStack(config, run.folder.image_shape, len(names))), names, {}, resumed=run
        ).finish(StopReason.INTERRUPTED)
        assert (load_model(folder).network.readout is not None) == is_kept


def test_a_missing_readout_is_reported(place, rescnet, tmp_path):
    """Info and evaluate say so, and what to do."""
    folder = tmp_path / "model"
    shutil.copytree(place, folder)
    (folder / "readout.safetensors").unlink()
    content = json.loads((folder / "model.json").read_text())
    del content["about"]["readout"]
    (folder / "model.json").write_text(json.dumps(layout.sign(content)))
    for command in ("info", "evaluate"):
        assert "the kernel readout is missing" in " ".join(rescnet(command, folder).stdout.split())
    assert json.loads(rescnet("info", folder, "--json").stdout)["misses_readout"]


def test_an_interrupt_while_it_is_fitted_leaves_the_layers(place, rescnet, pictures, options, tmp_path, monkeypatch):
    """They are usable, and the same command with --resume gives the readout of an uninterrupted run."""

    def interrupted(*_):
        raise KeyboardInterrupt

    folder = tmp_path / "model"
    with monkeypatch.context() as patch:
        patch.setattr("rescnet.training.run.fit_readout", interrupted)
        result = rescnet("train", pictures, *options, "--out", folder)
    assert result.exit_code == 130 and "; the kernel readout is missing, --resume fits it" in result.stderr
    assert len(load_model(folder).network.layers) == 3 and load_model(folder).network.readout is None
    assert rescnet("train", "--resume", folder).exit_code == 0
    assert (folder / "readout.safetensors").read_bytes() == (place / "readout.safetensors").read_bytes()


@pytest.mark.parametrize("with_metric", [False, True], ids=["given", "learned"])
def test_an_interrupted_fit_by_conjugate_gradients_continues(
    with_metric, rescnet, pictures, options, tmp_path, monkeypatch
):
    """With a learned metric, the interrupt comes in the second solution, and the first is not repeated."""
    monkeypatch.setattr("rescnet.training.readout.fit.METRIC_FROM", 1 if with_metric else 10**9)
    monkeypatch.setattr("rescnet.training.readout.fit.exact_bytes", lambda *_: 2**60)
    monkeypatch.setattr("rescnet.training.readout.iterative.LANDMARKS", (10, 10))
    monkeypatch.setattr("rescnet.training.saver.SECONDS_BETWEEN", 0)
    folder, save, steps = tmp_path / "model", ModelWriter.save_solution, []

    def saved(writer, solution):
        save(writer, solution)
        steps.append(solution.shape[1] == 2 * 10 + PROBES)  # 10 classes
        if sum(steps) == 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(ModelWriter, "save_solution", saved)
    assert rescnet("train", pictures, *options, "--out", folder).exit_code == 130
    assert (folder / "readout-solution.safetensors").exists()
    before = len(steps)
    assert rescnet("train", "--resume", folder).exit_code == 0 and (before > 8) == with_metric
    assert not (folder / "readout-solution.safetensors").exists()
    rest = len(steps) - before
    whole = tmp_path / "whole"
    assert rescnet("train", pictures, *options, "--out", whole).exit_code == 0
    records = [ModelFolder.open(place).history().readout for place in (folder, whole)]
    assert 0 < records[0].steps == rest < records[1].steps  # the first 8 steps were not lost
    found, wanted = (load_model(place).network.readout.coefficients for place in (folder, whole))
    assert float((found - wanted).norm() / wanted.norm()) < 0.01


def test_the_number_of_training_images_is_shown(place, rescnet):
    size = show_bytes((place / "readout.safetensors").stat().st_size)
    said = rescnet("info", place).stdout
    assert "kernel readout with 97 codes of training images: " in said and f" of the parameters, {size}" in said
    assert "the model stores its training images" not in said
    assert "training images" not in rescnet("evaluate", place).stderr


def test_the_removed_readout_is_refused_with_the_new_one(refused, pictures, tmp_path):
    said = refused("train", pictures, "--readout", "kernel-exact", "--out", tmp_path / "m")
    assert "'kernel-exact'" in said and "Did you mean 'kernel'?" in said


def test_copies_are_counted_on_the_disk_and_among_the_parameters(place, rescnet, pictures, options, tmp_path):
    rescnet("train", pictures, *options, "--kernel-copies", "shift 1", "--out", tmp_path / "twice")
    once, twice = (json.loads(rescnet("info", model, "--json").stdout) for model in (place, tmp_path / "twice"))
    assert twice["readout_images"] == 2 * once["readout_images"]
    assert twice["parameters"] > once["parameters"]
    for facts, model in ((once, place), (twice, tmp_path / "twice")):
        assert facts["parameters"] == load_model(model).network.parameters  # the report shows this number


def test_a_missing_readout_says_what_fits_it(rescnet, tmp_path):
    """A run on the command line resumes there; one of Python goes on in Python."""
    config = Config(layers=2, augment="").complete((1, 8, 8), 10, 60)
    run = TrainingRun(IMAGES[:60], LABELS[:60], config)
    next(iter(run))
    save_model(Model(run.network, run.history, tuple("0123456789")), tmp_path / "own")
    np.savez(tmp_path / "new.npz", x=IMAGES[60:90], y=LABELS[60:90])
    for words in (("info", tmp_path / "own"), ("evaluate", tmp_path / "own", tmp_path / "new.npz")):
        assert "rescnet.train(..., start=model) fits it" in " ".join(rescnet(*words).stdout.split())
