"""The record and its runner: runs are appended and found again, questions can be configured, tables are queries."""

from __future__ import annotations

import pandas as pd
import pytest

from lab import digests, measure, pages, records, run, tables
from rescnet.data.archives import PUBLIC_SETS
from rescnet.experiments.compare import parse_models
from rescnet.experiments.plans import plan_names

OWN = [name for name in run.question_names() if name not in plan_names()]


@pytest.mark.parametrize("name", OWN)
def test_every_question_can_be_configured(name):
    content = run.read_question(name)
    assert content["title"]
    if "models" in content:
        assert parse_models(",".join(content["models"]))
        return
    plan, _ = run.plan_of(name)
    assert len({experiment.name for experiment in plan.experiments}) == len(plan.experiments)
    for experiment in plan.experiments:
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
def test_the_runner_trains_a_question_and_resumes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "questions").mkdir()
    (tmp_path / "questions" / "small.toml").write_text(
        'title = "Small"\ndataset = "digits"\nheld_out = 300\nseeds = [0, 1]\nbase = { filters = 4, bank = "pca" }\n'
        '[[experiment]]\nname = "two layers"\nchanges = { layers = 2 }\n'
    )
    monkeypatch.setattr(run, "QUESTIONS", tmp_path / "questions")
    monkeypatch.setattr("sys.argv", ["run", "small", "--limit", "600", "--records", str(tmp_path / "records")])
    run.main()
    lines = records.read_lines(folder=tmp_path / "records")
    assert [(line["id"], line["seed"]) for line in lines] == [("small.1", 0), ("small.2", 1)]
    assert lines[0]["options"]["filters"] == 4 and lines[0]["layers"] == 2 and lines[0]["summary"]["chosen"]
    assert len(pd.read_csv(tmp_path / "records" / "layers.csv.gz")) == 4
    capsys.readouterr()
    run.main()
    assert capsys.readouterr().out == ""  # all of it is finished
    assert len(records.read_lines(folder=tmp_path / "records")) == 2


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
