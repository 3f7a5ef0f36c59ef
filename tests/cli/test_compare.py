"""``rescnet compare``: the league table, as text, JSON and a picture."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from rescnet.cli.compare import _table
from rescnet.experiments.compare import PUBLISHED, Row, model_names, parse_models
from rescnet.experiments.presentation import draw_league
from rescnet.numerics.intervals import wilson_interval

pytestmark = pytest.mark.slow

QUICK = "rescnet:preset=paper:layers=1:filters=4,svc,pcanet:filters=2/2,stacked-lda:discriminants=50"
PROVENANCE = {"dataset", "config", "commit", "command", "device", "versions", "seed"}


@pytest.fixture(scope="module")
def table(tmp_path_factory, rescnet):
    place = tmp_path_factory.mktemp("league")
    words = ["--limit", 200, "--out", place / "rows.json", "--plot", place / "league.svg"]
    return rescnet("compare", "--models", ",".join(sorted(QUICK.split(","))), *words), place


def test_a_line_a_model_best_first(table):
    result, place = table
    assert result.exit_code == 0, result.output
    rows = json.loads((place / "rows.json").read_text())
    assert [row["model"] for row in rows] == QUICK.split(",")  # ResCNet, baselines, family
    for row in rows:
        assert set(row) >= PROVENANCE
        assert 0.5 < row["accuracy"] <= 1 and row["interval"] == list(wilson_interval(row["accuracy"], 40))
        assert row["seconds"] > 0 and row["cpu_seconds"] > 0 and row["peak_memory"] > 1e6 and row["model_bytes"] > 1000
        assert "0.2 of the training images held out" in row["protocol"]
    assert rows[2]["config"]["filters"] == [2, 2]
    best = max(rows, key=lambda row: row["accuracy"])["model"]
    lines = result.stdout.splitlines()
    table = lines[next(number for number, line in enumerate(lines) if "train s" in line) :]
    assert best[:6] in table[2] and "%" in table[2]


@pytest.mark.parametrize("row", [{"deviation": 0.0123}, {"published": 0.8172}])
def test_the_table_is_whole_within_80_columns(row):
    numbers = {"seconds": 12345.6, "cpu_seconds": 45678.9, "predict_seconds": 123.4, "peak_memory": 123 * 10**9}
    rows = [
        Row("multilayer-pcanet", accuracy=0.9812, interval=(0.9731, 0.9888), model_bytes=123 * 10**6, **numbers, **row),
        Row("pcanet:filter_sizes=9", error="they do not fit"),
    ]
    said = io.StringIO()
    Console(file=said, width=80).print(_table(rows, "digits: test images"))
    lines = [line.strip() for line in said.getvalue().splitlines()]
    assert any(line.startswith("multilayer-pcanet ") and line.endswith("123 GB  123 MB") for line in lines)
    assert (
        "…" not in said.getvalue()
        and " 97.3–98.9 " in said.getvalue()
        and any(line.endswith("memory    size") for line in lines)
    )
    assert ("paper" in said.getvalue()) == ("published" in row)


def texts_of(file):
    return [text.text for text in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")]


def test_the_figure_names_every_model_with_its_facts(table):
    texts = texts_of(table[1] / "league.svg")
    assert all(model.replace(":", ", ") in texts for model in QUICK.split(","))
    assert sum(" % · " in text for text in texts if text) == 4


def test_published_figures_are_drawn_beside_the_measured_ones(tmp_path):
    rows = [Row("pcanet", accuracy=0.99, published=0.9934, seconds=2), Row("dctnet", accuracy=0.98, seconds=1)]
    draw_league(tmp_path / "both.svg", rows, "a & b")
    assert {"measured", "published", "a & b"} <= set(texts_of(tmp_path / "both.svg"))
    draw_league(tmp_path / "one.svg", [rows[1], Row("osnet:filters=4/4:" + 60 * "x", accuracy=0.8)], "")
    assert "published" not in texts_of(tmp_path / "one.svg")
    assert any(text.startswith("osnet, filters=4/4") and text.endswith("…") for text in texts_of(tmp_path / "one.svg"))
    with pytest.raises(ValueError, match="no model was measured"):
        draw_league(tmp_path / "none.svg", [Row("pcanet", error="it failed")], "")
    assert set(PUBLISHED) <= set(model_names())


def test_without_matplotlib_a_line_says_what_draws(rescnet, tmp_path, monkeypatch):
    monkeypatch.setattr("rescnet.experiments.presentation.find_spec", lambda name: None)
    words = ["--models", "stacked-lda:discriminants=20", "--limit", 100, "--plot", tmp_path / "league.svg"]
    result = rescnet("compare", *words)
    assert result.exit_code == 0 and "pip install matplotlib" in result.output
    assert not (tmp_path / "league.svg").exists()


def test_rows_are_added_to_those_of_other_models(table, rescnet, tmp_path):
    file = tmp_path / "rows.json"
    file.write_text((table[1] / "rows.json").read_text())
    result = rescnet("compare", "--models", "pcanet:filters=2/2", "--limit", 100, "--out", file, "--add", "--json")
    rows = json.loads(file.read_text())
    assert sorted(row["model"] for row in rows) == sorted(QUICK.split(","))
    new = next(row for row in rows if row["model"].startswith("pcanet"))
    assert new["train_images"] < 100
    assert json.loads(result.stdout)[0]["accuracy"] == new["accuracy"]


def test_splits_give_a_mean_and_a_deviation(rescnet):
    words = ["--models", "stacked-lda:discriminants=20", "--limit", 200, "--splits", 3, "--json"]
    row = json.loads(rescnet("compare", *words).stdout)[0]
    assert row["deviation"] > 0
    assert row["protocol"].endswith("mean of 3 splits")


def test_test_images_are_used_where_there_are_some(rescnet, pictures):
    rows = [
        json.loads(rescnet("compare", *words, "--models", "pcanet:filters=2/2", "--json").stdout)[0]
        for words in ([pictures], ["--dataset", pictures])
    ]
    for row in rows:
        assert row["protocol"] == "test images"
        assert row["train_images"] == 200


def test_a_model_that_fails_leaves_the_others(rescnet, tmp_path):
    models = "pcanet:filter_sizes=9,stacked-lda:discriminants=20"
    result = rescnet("compare", "--models", models, "--limit", 100, "--out", tmp_path / "rows.json")
    assert result.exit_code == 0
    failed, fine = json.loads((tmp_path / "rows.json").read_text())
    assert failed["accuracy"] is None and "must be at most 8 on images of 8×8, got 9" in failed["error"]
    assert fine["accuracy"] > 0.3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--models", "pcanett"], "got 'pcanett'. Did you mean 'pcanet'"),
        (["--models", "pcanet:filterz=3"], "got 'filterz' in pcanet. Did you mean 'filters'"),
        (["--models", "rescnet:layers"], "option of rescnet must be key=value, got 'layers'"),
        (["--splits", "0"], "splits must be at least 1, got 0"),
        (["--held-out", "0"], "--held-out must be above 0"),
        (["--held-out", "2"], "validation_fraction must be between 0 and 1, got 2"),
        (["--out", "nowhere/rows.json"], "path must be in an existing folder, got nowhere"),
        (["--dataset", "digitz"], "Did you mean 'digits'?"),
        (["digits", "--dataset", "mnist"], "the images must be named once, got digits and --dataset mnist"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(refused, words, message):
    assert message in refused("compare", *words)


def test_a_file_that_is_no_table_is_not_added_to(refused, tmp_path):
    file = tmp_path / "rows.json"
    file.write_text("{}1")
    assert "must hold rows of rescnet compare" in refused("compare", "--out", file, "--add")
    assert file.read_text() == "{}1"


def test_all_are_compared_by_default_but_the_slow_one():
    assert model_names()[:6] == ["rescnet", "svc", "forest", "hog-svm", "cnn", "resnet18"] and len(model_names()) == 20
    assert [contestant.name for contestant in parse_models("all")] == model_names()[:5] + model_names()[6:]
    assert np.array([c.options == {} for c in parse_models("all")]).all()


def test_baselines_beside_the_network(rescnet, save_png, tmp_path, monkeypatch):
    monkeypatch.setattr("rescnet.experiments.baselines.TREES", 30)
    rng = np.random.default_rng(0)
    for name, light in (("dark", 60), ("light", 180)):
        for number in range(20):
            save_png(tmp_path / "set" / name / f"{number}.png", rng.integers(light - 50, light + 50, (12, 12)))
    models = "cnn,svc,rescnet:layers=1:filters=4:augment=flip,cnn:seconds=0.01:flips=false,pcanet:filters=2/2"
    words = ["--models", models, "--image-size", "8,8", "--baseline", "forest,hog-svm", "--json"]
    result = rescnet("compare", tmp_path / "set", *words)
    rows = {row["model"]: row for row in json.loads(result.stdout)}
    baselines = ["cnn", "svc", models.split(",")[3], "forest", "hog-svm"]
    assert next(iter(rows)).startswith("rescnet") and list(rows)[1:] == [*baselines, "pcanet:filters=2/2"]
    assert all(row["error"] == "" for row in rows.values())
    assert rows["svc"]["accuracy"] == rows["forest"]["accuracy"] == 1
    network, cnn, short = (rows[name] for name in (models.split(",")[2], "cnn", models.split(",")[3]))
    assert cnn["config"]["seconds"] == network["seconds"] and cnn["config"]["flips"]
    assert cnn["seconds"] == pytest.approx(network["seconds"], rel=0.3, abs=0.3)
    assert short["config"]["seconds"] == 0.01 and not short["config"]["flips"]
    assert rows["pcanet:filters=2/2"]["changed"].startswith("sizes of small images: filters=8/8:filter_sizes=3")
    assert cnn["changed"].endswith("shifts and flips") and "settings for these images" in result.stderr


def test_the_number_of_models_is_said_first(rescnet, monkeypatch):
    """All of them take minutes, also on few images."""
    monkeypatch.setattr("rescnet.experiments.compare.compare_models", lambda *_: iter(()))
    said = f"{len(parse_models('all'))} models, one after another; --models chooses some\n"
    assert rescnet("compare").stdout.startswith(said)
    assert "one after another" not in rescnet("compare", "--models", "svc,forest").stdout
