"""The record and its runner: runs are appended and found again, questions can be configured, tables are queries."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from lab import digests, measure, pages, records, reproduce, tables
from lab.questions import Question, load_question, question_names, read_question
from rescnet.compare.comparison import parse_models
from rescnet.data.archives import PUBLIC_SETS


@pytest.mark.parametrize("name", question_names())
def test_every_question_can_be_configured(name):
    question = load_question(name)
    assert question.title and bool(question.models) != bool(question.experiments)
    if question.models:
        assert parse_models(",".join(question.models))
    assert len({experiment.name for experiment in question.experiments}) == len(question.experiments)
    for experiment in question.experiments:
        config = experiment.config()
        assert experiment.dataset in PUBLIC_SETS
        assert all(config.to_dict()[key] == value for key, value in experiment.changes.items())


def test_a_run_is_appended_and_read_back(tmp_path):
    line = {"file": "signs", "question": "signs", "name": "preset", "caveat": ""}
    layers = [{"layer": n, "train": n / 3, "validation": None, "seconds": 0.25, "peak_memory": 5} for n in (1, 2)]
    assert records.append(line, layers, tmp_path) == "signs.1"
    assert records.append(line | {"caveat": "busy"}, layers[:1], tmp_path) == "signs.2"
    assert records.read_lines(folder=tmp_path)[0] == {"id": "signs.1", "question": "signs", "name": "preset"}
    read = pd.read_csv(tmp_path / "layers.csv.gz")
    assert read["run"].tolist() == ["signs.1", "signs.1", "signs.2"] and list(read) == list(records.LAYER)
    assert read["train"].tolist() == pytest.approx([1 / 3, 2 / 3, 1 / 3], abs=1e-6) and read["test"].isna().all()
    assert records.append_bench({"file": "workers", "seconds": 1.5}, tmp_path) == "workers.1"


@pytest.mark.slow
def test_a_question_is_run_recorded_and_resumed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "small.toml"
    file.write_text(
        'title = "Small"\ndataset = "digits"\nheld_out = 300\nlimit = 600\nseeds = [0, 1]\n'
        'base = { filters = 4, bank = "pca" }\n[[experiment]]\nname = "two layers"\nchanges = { layers = 2 }\n'
    )
    monkeypatch.setattr(reproduce, "load_question", lambda name: read_question(file))
    monkeypatch.setattr(reproduce, "append", partial(records.append, folder=tmp_path / "records"))
    monkeypatch.setattr("sys.argv", ["reproduce", "table2", "--record"])
    assert reproduce.main() == 0
    lines = records.read_lines(folder=tmp_path / "records")
    assert [(line["id"], line["seed"]) for line in lines] == [("small.1", 0), ("small.2", 1)]
    assert lines[0]["options"]["filters"] == 4 and lines[0]["layers"] == 2 and lines[0]["summary"]["chosen"]
    assert lines[0]["command"] == "python -m lab.reproduce table2 --record"
    assert len(pd.read_csv(tmp_path / "records" / "layers.csv.gz")) == 4
    (row,) = [line for line in Path("results/small.md").read_text().splitlines() if line.startswith("| two layers")]
    assert row.endswith("| 2 |")  # seeds
    capsys.readouterr()
    assert reproduce.main() == 0
    assert capsys.readouterr().out.count("finished before, 2 layers") == 2
    assert len(records.read_lines(folder=tmp_path / "records")) == 2


@pytest.mark.slow
def test_models_are_compared_each_in_its_own_process(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    models = ("stacked-lda:discriminants=20", "pcanet:filter_sizes=9")
    question = Question("small", "Small", models=models, dataset="digits", held_out=0.5)
    monkeypatch.setattr(reproduce, "load_question", lambda name: question)
    monkeypatch.setattr(reproduce, "append", partial(records.append, folder=tmp_path / "records"))
    monkeypatch.setattr("sys.argv", ["reproduce", "digits", "--record"])
    assert reproduce.main() == 0
    fine, failed = records.read_lines(folder=tmp_path / "records")
    assert fine["accuracy"] > 0.3 and fine["kind"] == "family" and fine["options"]["discriminants"] == 20
    assert fine["train_images"] in range(890, 905) and fine["commit"]
    assert "must be at most 8 on images of 8×8, got 9" in failed["error"] and "accuracy" not in failed


def test_accuracies_at_equal_training_accuracy():
    points = pd.DataFrame({"train": [0.95, 0.952, 0.99, 0.9999], "validation": [0.8, 0.82, 0.84, 0.9]})
    assert tables.validation_at(points, 95) == pytest.approx(81)
    assert tables.validation_at(points, 99.95) is None  # within half of what it lacks to 100
    assert tables.validation_at(points, 97) is None


def test_figures_are_written_as_means_and_deviations():
    assert pages.spread([0.5, None]) == "50.00" and pages.spread([]) == "–"
    assert pages.spread([0.5, 0.6]) == "55.00 ± 7.07"
    assert pages.ids([{"id": "a.1"}, {"id": "a.3"}, {"id": "b.2"}]) == "a.1, 3; b.2"
    assert tables.carry("x<!-- t -->old<!-- /t -->y", "t", "new") == "x<!-- t -->\nnew\n<!-- /t -->y"


def test_gratings_differ_by_class(tmp_path):
    measure.gratings(tmp_path / "images.npy", 40)
    assert (tmp_path / "images.npy").stat().st_size > 40 * 256
    assert measure.small_config().layers == 2


@pytest.mark.slow
def test_digests_depend_on_the_network_alone():
    (case,) = [case for case in digests.cases() if case[0] == "digits/kernel"]
    assert digests.digest(case) == digests.digest(case)
    assert digests.digest(case) != digests.digest((*case[:4], case[4] | {"ridge": 0.2}))
