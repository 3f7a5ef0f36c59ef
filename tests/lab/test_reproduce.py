"""The paper's tables: what they are made of; runs that are cut short, gone on with, and written beside the paper."""

from __future__ import annotations

import json
import re
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lab import reproduce
from lab.pages import network_rows
from lab.questions import TABLES, Experiment, PaperFigure, load_question
from lab.results import Results, summarise
from lab.runner import ExperimentRun, RunOptions, experiment_key, split_images
from rescnet import ComputeOptions, NetworkConfig, train
from rescnet.data import Dataset, ImageSet
from rescnet.network.history import History, LayerRecord

pytestmark = pytest.mark.slow

NAMES = tuple("abcdef")


@pytest.fixture(scope="module")
def dataset(blobs):
    images, labels = blobs
    labels = labels.astype(np.int64)
    return Dataset(
        "blobs", ImageSet(images[:180], labels[:180], NAMES), None, ImageSet(images[180:], labels[180:], NAMES)
    )


@pytest.fixture(scope="module")
def config():
    return NetworkConfig(
        filters=6, block_sizes=(4,), block_stride=2, pyramid=(2, 1), bank="pca", layers=5, stop_at_zero_error=False
    )


EXPERIMENT = Experiment("blobs", "Blobs", "cifar10", {"filters": 6}, paper=(PaperFigure(4, 90.0, "best"),))


def run(config, dataset, folder, experiment=EXPERIMENT, again=False, **options):
    options = RunOptions(
        **({"held_out": 30, "state": folder / "state", "compute": ComputeOptions(device="cpu")} | options)
    )
    results = Results(folder / "table2.json")
    return ExperimentRun(experiment, config, dataset, results, options, again=again), results


def accuracies(entry):
    return [(r["layer"], r["train_accuracy"], r["validation_accuracy"], r["test_accuracy"]) for r in entry["history"]]


def test_the_tables_hold_the_papers_figures():
    for name in TABLES[:-1]:
        for experiment in load_question(name).experiments:
            assert experiment.config().layers >= max(figure.layers for figure in experiment.paper)
    best = {e.dataset: max(f.accuracy for f in e.paper) for e in load_question("table2").experiments}
    assert best == {"cifar10": 87.54, "cifar100": 64.9, "mnist": 99.52, "tiny-imagenet": 44.37}
    flips = {e.dataset: e.paper[0].accuracy for e in load_question("table4").experiments if "augment" in e.changes}
    assert flips == {"cifar10": 88.35, "cifar100": 67.8, "tiny-imagenet": 45.91}
    others = {"cifair10", "cifair100", "svhn", "stl10", "kmnist", "k49", "emnist-balanced", "emnist-letters"}
    assert {experiment.dataset for experiment in load_question("records").experiments} > {
        *best,
        "fashion-mnist",
    } | others
    with pytest.raises(ValueError, match="Did you mean 'table2'"):
        load_question("tabel2")
    with pytest.raises(ValueError, match=r"got 'cifar'\. Did you mean 'cifar10"):
        load_question("table2").only(["cifar"])
    assert [experiment.name for experiment in load_question("table2").only(["mnist"])] == ["mnist"]


def test_a_run_is_that_of_train_and_says_where_it_comes_from(config, dataset, tmp_path):
    experiment, results = run(config, dataset, tmp_path)
    entry = experiment.go()
    splits = split_images(dataset, 30, None, 0)
    assert {name: len(images) for name, images in splits.items()} == {"train": 150, "validation": 30, "test": 60}
    assert [len(split_images(dataset, *of, 0)["validation"]) for of in ((36, 90), (1000, None))] == [18, 90]
    pairs = [(splits[name].images, splits[name].labels) for name in ("train", "validation", "test")]
    history = train(*pairs[0], config, validation=pairs[1], test=pairs[2]).history
    assert accuracies(entry) == [(r.layer, r.train_accuracy, r.validation_accuracy, r.test_accuracy) for r in history]
    assert results.entries() == [json.loads(json.dumps(entry))]
    assert {"dataset", "config", "commit", "command", "device", "versions", "seed", "seconds"} <= set(entry)
    assert entry["finished"] and entry["stopped"] == "all layers were added"


FLIPS = {"augment": "flip", "test_views": "flip"}


@pytest.mark.parametrize("flips", [{}, FLIPS], ids=["plain", "flips"])
def test_a_run_that_is_cut_short_goes_on_where_it_was_left(config, dataset, tmp_path, flips):
    config = replace(config, **flips)
    whole = run(config, dataset, tmp_path / "whole")[0].go()
    cut, results = run(config, dataset, tmp_path / "cut")
    heard = []

    def interrupt(record):
        heard.append(record.layer)
        if record.layer == 3:
            raise KeyboardInterrupt

    cut.heard = interrupt
    with pytest.raises(KeyboardInterrupt):
        cut.go()
    (left,) = results.entries()
    assert heard == [1, 2, 3] and left["layers"] == 3 and not left["finished"]
    assert left["stopped"] == "it was interrupted"
    again = run(config, dataset, tmp_path / "cut")[0]
    again.heard = lambda record: heard.append(record.layer)
    entry = again.go()
    assert heard == [1, 2, 3, 4, 5] and entry["finished"]
    assert accuracies(entry) == accuracies(whole)


def test_a_network_of_another_table_is_resumed_with_all_its_layers(config, dataset, tmp_path):
    ran, results = run(config, dataset, tmp_path)
    deep = ran.go()
    assert results.finished(ran.key, 2, "blobs") == results.finished(ran.key, 5, "blobs") == deep
    assert results.finished(ran.key, 6, "blobs") is results.finished(ran.key, 2, "another") is None
    other = replace(EXPERIMENT, name="another")
    heard = []
    again, _ = run(config, dataset, tmp_path, other)
    again.heard = heard.append
    entry = again.go()
    assert not heard and entry["name"] == "another" and entry["history"] == deep["history"]


def test_a_run_cut_short_takes_the_place_of_none_with_more_layers(config, dataset, tmp_path):
    """Unless it is of other settings; run to its end, a shallower one was asked for."""
    whole = run(config, dataset, tmp_path)[0].go()
    results = Results(tmp_path / "table2.json")
    results.put(whole)
    results.put(whole | {"layers": 2, "finished": False})
    assert results.entries() == [whole]
    for shallower in (whole | {"layers": 2}, whole | {"layers": 1, "finished": False, "key": "of other settings"}):
        results.put(shallower)
        assert results.entries() == [shallower]


def line(seed=0, name="cifar10", images=50, test=0.5, layer=5, **options):
    """Return a line of the record, of a run that is not in it yet."""
    found = {"name": name, "label": "CIFAR-10", "dataset": "cifar10", "seed": seed, "images": {"train": images}}
    found |= {"summary": {"last": {"layer": layer, "test": test}}, "seconds": 60, "layers": 12, "finished": True}
    return found | {"options": options | {"seed": seed}}


def test_networks_of_other_settings_are_no_seeds_of_each_other():
    def seeds(*lines):
        return [row["seeds"] for row in network_rows(load_question("table2"), lines)]

    assert seeds(line(1), line(0)) == ["2"]
    assert seeds(line(0), line(1, ridge=7.0), line(2, layers=9)) == ["1", "1", "1"]


def test_out_of_time_leaves_what_there_is(config, dataset, tmp_path, monkeypatch):
    cut, results = run(config, dataset, tmp_path, deadline=time.monotonic() + 1e9)
    with monkeypatch.context() as patch:
        late = iter([0.0, 0.0, 1e99])  # before each of three layers
        patch.setattr("rescnet.training.run.monotonic", lambda: next(late))
        entry = cut.go()
    assert entry["layers"] == 2 and entry["stopped"] == "the time limit was reached" and not entry["finished"]
    assert results.finished(entry["key"], 5, entry["name"]) is None
    assert results.finished(entry["key"], 2, entry["name"])["layers"] == 2
    assert run(replace(config, layers=7), dataset, tmp_path)[0].go()["layers"] == 7
    shallow = run(replace(config, layers=4), dataset, tmp_path)[0].go()
    assert shallow["layers"] == 4
    deeper = run(replace(config, layers=8), dataset, tmp_path)[0]
    heard = []
    deeper.heard = lambda record: heard.append(record.layer)
    assert deeper.go()["layers"] == 8 and heard == [8]  # the seven layers were not lost to the shallower run


def test_identity_is_all_that_decides_what_is_learned(config):
    options = RunOptions()
    key = experiment_key(EXPERIMENT, config, options)
    assert key == experiment_key(replace(EXPERIMENT, name="other"), replace(config, layers=99), options)
    for other in (
        experiment_key(EXPERIMENT, replace(config, ridge=0.3), options),
        experiment_key(EXPERIMENT, replace(config, **FLIPS), options),
        experiment_key(EXPERIMENT, config, replace(options, held_out=10)),
        experiment_key(EXPERIMENT, config, replace(options, limit=10)),
    ):
        assert other != key


def record(layer, train, held, test):
    return LayerRecord(layer, train, held, test, 0.5, 0.1, 0.1, {"heads": 1.0}, 0)


def test_three_ways_to_tell_an_accuracy():
    curve = [record(1, 0.5, 0.6, 0.7), record(2, 0.6, 0.9, 0.71), record(3, 0.7, 0.9, 0.8), record(4, 1, 0.8, 0.75)]
    found = summarise(History(curve))
    assert (found["chosen"]["layer"], found["chosen"]["test"]) == (2, 0.71)
    assert (found["last"]["layer"], found["last"]["test"]) == (4, 0.75)
    assert (found["paper_rule"]["layer"], found["paper_rule"]["test"]) == (3, 0.8)
    assert "chosen" not in summarise(History([record(1, 0.5, None, 0.7)]))


def test_table_and_plot_show_ours_beside_the_papers(config, dataset, tmp_path):
    question = load_question("table2")
    ran, results = run(config, dataset, tmp_path, question.experiments[0])
    entry = ran.go()
    reproduce.write_table(question, results)
    page = (tmp_path / "table2.md").read_text()
    (ours,) = [row for row in page.splitlines() if row.startswith("| CIFAR-10 |")]
    last = entry["summary"]["last"]
    assert "87.54 (937, best)" in ours and f"| {100 * last['test']:.2f} (5) |" in ours
    assert page.count("Not run yet") == len(question.experiments) - 1
    chart = ElementTree.parse(tmp_path / "table2-cifar10.svg")
    drawn = [text.text for text in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert "paper 87.54" in drawn and drawn.count("CIFAR-10, 150 images") == 1  # test and training, one name


def test_seeds_of_one_network_are_one_row(tmp_path):
    results = Results(tmp_path / "table2.json")
    for seed, images, test in ((1, 90, 0.86), (0, 90, 0.84), (0, 100, 0.9), (0, 90, 0.85)):
        results.put(line(seed, images=images, test=test, layer=10 + seed) | {"config": {}})
    shown = [row["last layer"] for row in network_rows(load_question("table2"), results.entries())]
    assert shown == ["85.50 ± 0.71 (11, 10)", "90.00 (10)"]  # the first of seed 0 was replaced


@pytest.fixture
def small_cifar(blobs, monkeypatch, tmp_path):
    """Blobs enlarged to 32×32 in place of CIFAR-10, and settings that train in a moment."""
    images, labels = blobs
    large = np.kron(images, np.ones((1, 1, 3, 3), np.uint8))[..., :32, :32]
    data = Dataset(
        "cifar10",
        ImageSet(large[:60], labels[:60].astype(np.int64), NAMES),
        None,
        ImageSet(large[60:90], labels[60:90].astype(np.int64), NAMES),
    )
    monkeypatch.setattr(reproduce, "images_of", lambda source, root: data)
    monkeypatch.setattr(reproduce, "describe", lambda root: [SimpleNamespace(name="cifar10", present=True)])
    file = tmp_path / "small.toml"
    file.write_text('filters = 4\nblock_stride = 4\nbank = "pca"\nstop_at_zero_error = false\n')
    return ["--config", str(file), "--out", str(tmp_path / "out"), "--state", str(tmp_path / "state"), "--layers", "2"]


@pytest.fixture
def command(monkeypatch, capsys):
    """Run ``lab.reproduce``; returns the exit code, and what it printed."""

    def call(*words):
        monkeypatch.setattr("sys.argv", ["reproduce", *words])
        try:
            code = reproduce.main()
        except SystemExit as error:
            code = error.code
        said = capsys.readouterr()
        return code, said.out + said.err

    return call


def test_the_command_runs_resumes_and_reuses_other_tables(command, small_cifar, tmp_path):
    code, printed = command("table2", "--only", "cifar10", "cifar100", *small_cifar, "--held-out", "20")
    assert code == 0, printed
    assert "cifar100 is not here, skipped" in printed and "2 layers in" in printed
    assert "Not run yet" not in printed and "readout" not in printed  # only rows and columns with figures
    assert "cifar10: CIFAR-10, up to 2 layers; images: 42 train, 18 validation, 30 test" in printed
    (entry,) = json.loads((tmp_path / "out" / "table2.json").read_text())
    assert entry["name"] == "cifar10" and entry["layers"] == 2 and entry["images"]["validation"] == 18
    assert (tmp_path / "out" / "table2-cifar10.svg").exists()
    assert "| CIFAR-10 | 87.54 (937, best) | " in (tmp_path / "out" / "table2.md").read_text()
    second = command("table2", "--only", "cifar10", *small_cifar, "--held-out", "20")
    assert "finished before, 2 layers" in second[1]
    other = command("table4", "--only", "cifar10", *small_cifar, "--held-out", "20")
    assert "resuming after layer 2" in other[1]  # the same network, of another table
    (same,) = json.loads((tmp_path / "out" / "table4.json").read_text())
    assert same["label"] == "CIFAR-10, stride 4" and same["history"] == entry["history"]


def test_a_trial_on_few_images_leaves_the_results_alone(command, small_cifar, tmp_path):
    code, printed = command("table2", *small_cifar, "--held-out", "0", "--limit", "40")
    assert code == 0, printed
    written = {file.name for file in (tmp_path / "out").iterdir()}
    assert written == {f"table2-of-40-images{end}" for end in (".json", ".md", "-cifar10.svg")}


def test_the_plan_is_printed_and_nothing_run(command, small_cifar, tmp_path):
    code, printed = command("table4", "--dry-run", *small_cifar)
    assert code == 0 and "88.35" in printed and " on NVIDIA H200" in printed
    assert "time unknown" in command("beyond", "--dry-run", *small_cifar)[1]
    assert not (tmp_path / "out").exists()
    records = command("records", "--dry-run", *small_cifar)[1]
    assert not any("deep" in experiment.name for experiment in load_question("records").experiments)
    assert re.search(r"cifar10: cifar10, \d+ layers, [\d.]+ s on NVIDIA H200; published 87\.54", records)
    assert command("table2", *small_cifar, "--held-out", "0")[0] == 0
    plan = command("table2", "--only", "cifar10", "--dry-run", *small_cifar)[1]
    assert "H200" not in plan and "unknown" not in plan  # some layers have run here


def test_without_matplotlib_the_table_is_written(command, small_cifar, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "find_spec", lambda name: None)
    assert command("table2", "--only", "cifar10", *small_cifar, "--held-out", "0")[0] == 0
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"table2.json", "table2.md"}


def test_bad_input_is_refused(command, small_cifar, tmp_path):
    (tmp_path / "file").touch()
    for words in (
        ["table5"],
        ["table2", "--only", "cifar"],
        ["table2", "--only", "mnist"],
        ["table2", "--max-memory", "x"],
        ["table2", "--limit", "9", "--record"],
        ["table2", "--state", str(tmp_path / "file")],
    ):
        assert command(words[0], *small_cifar, *words[1:])[0] == 2, words


def test_ctrl_c_says_how_to_resume(command, small_cifar, tmp_path, monkeypatch):
    from rescnet.training.trainer import Trainer

    add = Trainer.add_layer

    def interrupted(self):
        if len(self.history) == 1:
            raise KeyboardInterrupt
        return add(self)

    words = ["table2", "--only", "cifar10", *small_cifar, "--held-out", "20"]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "add_layer", interrupted)
        code, printed = command(*words)
    assert code == 130
    assert "interrupted after 1 layer: the same command resumes" in printed
    assert "(1), unfinished" in (tmp_path / "out" / "table2.md").read_text()
    code, printed = command(*words)
    assert code == 0 and "2 layers in" in printed and "layer    1 " not in printed
    assert "resuming after layer 1; its maps are computed first" in printed
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "add_layer", interrupted)
        printed = command(*words, "--seeds", "1")[1]
    assert "interrupted after 1 layer:" in printed  # not the two of the other seed


def test_a_readout_is_run_printed_and_fitted_again_for_other_layers(config, dataset, tmp_path):
    """It has a column of its own and a mark; what was cut short before it is not finished, nor is another depth."""
    config = replace(config, readout="kernel", layers=2)
    ran, results = run(config, dataset, tmp_path, deadline=time.monotonic() - 1)
    assert ran.go() is None
    ran, results = run(config, dataset, tmp_path)
    entry = ran.go()
    assert entry["summary"]["readout"]["test"] == entry["readout"]["test_accuracy"] > 0.5
    assert entry["seconds"] >= round(entry["readout"]["seconds"], 2)
    assert results.finished(ran.key, 2, "blobs") and not results.finished(ran.key, 1, "blobs")
    cut = Results(tmp_path / "cut" / "table2.json")
    cut.put(entry | {"readout": None})
    assert not cut.finished(ran.key, 2, "blobs")
    (row,) = network_rows(load_question("table2"), [reproduce.line_of("table2", entry)])
    assert row["readout"] == f"{100 * entry['readout']['test_accuracy']:.2f} (2)"


def test_patience_goes_on_after_the_last_layer_and_reads_out_the_best_depth(config, dataset, tmp_path):
    """What is kept has all layers, though it is used at fewer."""
    config = replace(config, patience=2, layers=30, readout="kernel")
    entry = run(config, dataset, tmp_path)[0].go()
    assert entry["stopped"] == "the validation accuracy no longer rises"
    assert entry["summary"]["readout"]["layer"] == entry["summary"]["chosen"]["layer"] == entry["layers"] - 2
    heard = []
    ran, _ = run(config, dataset, tmp_path)
    ran.heard = heard.append
    assert ran.go()["layers"] == entry["layers"] and not heard


def test_a_run_cut_before_its_readout_replaces_none_that_has_one(config, dataset, tmp_path, monkeypatch):
    """Whatever cuts it short; once its readout is fitted it replaces the entry."""
    config = replace(config, readout="kernel", layers=2)
    ran, results = run(config, dataset, tmp_path)
    ran.go()
    before = results.entries()
    assert before[0]["readout"]

    def interrupted(*_):
        raise KeyboardInterrupt

    again, _ = run(config, dataset, tmp_path, again=True)
    with monkeypatch.context() as patch:
        patch.setattr("rescnet.training.run.fit_readout", interrupted)
        with pytest.raises(KeyboardInterrupt):
            again.go()
    assert results.entries() == before and again.layers == 2
    run(replace(config, layers=3), dataset, tmp_path)[0].go()
    assert [(entry["layers"], bool(entry["readout"])) for entry in results.entries()] == [(3, True)]
    run(replace(config, readout="heads"), dataset, tmp_path)[0].go()  # which is to have none
    assert [(entry["layers"], entry["readout"]) for entry in results.entries()] == [(2, None)]


def test_a_readout_that_fails_leaves_the_layers(config, dataset, tmp_path, monkeypatch):
    """The entry says why, and has no readout."""

    def fails(*_):
        raise FloatingPointError("no kernel readout could be solved.")

    monkeypatch.setattr("rescnet.training.run.fit_readout", fails)
    ran, _ = run(replace(config, readout="kernel", layers=1), dataset, tmp_path)
    entry = ran.go()
    assert (
        entry["stopped"] == "an error occurred: no kernel readout could be solved."
        and entry["readout"] is None
        and entry["layers"] == 1
    )
