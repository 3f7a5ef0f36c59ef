"""``rescnet compare``: the table, as text and as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rescnet.base.intervals import wilson_interval
from rescnet.compare.comparison import model_names, parse_models

pytestmark = pytest.mark.slow

QUICK = "pcanet:filters=2/2,rescnet:preset=paper:layers=1:filters=4,stacked-lda:discriminants=50,svc"
PROVENANCE = {"dataset", "config", "command", "device", "versions", "date", "seed"}


@pytest.fixture(scope="module")
def table(tmp_path_factory, rescnet):
    place = tmp_path_factory.mktemp("compare")
    return rescnet("compare", "digits:20", "--models", QUICK, "--out", place / "rows.json"), place


def test_rows_are_replaced_only_with_overwrite(refused, table):
    assert "rows.json. Use another name, or --overwrite." in refused("compare", "--out", table[1] / "rows.json")


def test_a_line_a_model_best_first(table):
    result, place = table
    assert result.exit_code == 0, result.output
    rows = json.loads((place / "rows.json").read_text())
    assert [row["model"] for row in rows] == QUICK.split(",")
    for row in rows:
        assert set(row) >= PROVENANCE
        assert 0.5 < row["accuracy"] <= 1 and row["interval"] == list(wilson_interval(row["accuracy"], 40))
        assert row["seconds"] > 0 and row["peak_memory"] > 1e6 and row["model_bytes"] > 1000
        assert "0.2 of the training images held out" in row["protocol"] and row["train_images"] == 160
    assert rows[0]["config"]["filters"] == [2, 2] and rows[3]["config"] is None
    best = max(rows, key=lambda row: row["accuracy"])["model"]
    lines = result.stdout.splitlines()
    head = next(number for number, line in enumerate(lines) if "train s" in line)
    assert lines[head - 1].startswith("digits:20: ") and lines[head - 1].rstrip().endswith("40 images")
    assert best[:6] in lines[head + 1] and "%" in lines[head + 1] and "…" not in result.stdout


def test_splits_give_a_mean_and_a_deviation(rescnet):
    words = ["--models", "stacked-lda:discriminants=20", "--splits", 3, "--json"]
    row = json.loads(rescnet("compare", "digits:20", *words).stdout)[0]
    assert row["deviation"] > 0
    assert row["protocol"].endswith("mean of 3 splits")


def test_test_images_are_used_where_there_are_some(rescnet, pictures):
    row = json.loads(rescnet("compare", pictures, "--models", "pcanet:filters=2/2", "--json").stdout)[0]
    assert row["protocol"] == "test images"
    assert row["train_images"] == 200


def test_a_model_that_fails_leaves_the_others(rescnet, tmp_path):
    models = "pcanet:filter_sizes=9,stacked-lda:discriminants=20"
    result = rescnet("compare", "digits:10", "--models", models, "--out", tmp_path / "rows.json")
    assert result.exit_code == 0
    failed, fine = json.loads((tmp_path / "rows.json").read_text())
    assert failed["accuracy"] is None and "must be at most 8 on images of 8×8, got 9" in failed["error"]
    assert fine["accuracy"] > 0.3 and failed["error"] in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--models", "pcanett"], "got 'pcanett'. Did you mean 'pcanet'"),
        (["--models", "pcanet:filterz=3"], "got 'filterz' in pcanet. Did you mean 'filters'"),
        (["--models", "svc:cost=3"], "svc must have no options, got 'cost'"),
        (["--models", "rescnet:layers"], "option of rescnet must be key=value, got 'layers'"),
        (["--held-out", "0"], "--held-out must be above 0"),
        (["--held-out", "2"], "validation_fraction must be between 0 and 1, got 2"),
        (["--out", "nowhere/rows.json"], "path must be in an existing folder, got nowhere"),
        (["digitz"], "Did you mean 'digits'?"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(refused, words, message):
    assert message in refused("compare", *words)


def test_all_are_compared_by_default():
    assert model_names()[:4] == ["rescnet", "svc", "forest", "hog-svm"] and len(model_names()) == 18
    assert [contestant.name for contestant in parse_models("all")] == model_names()
    assert [contestant.label for contestant in parse_models("pcanet:filters=2/2, all")][1:] == model_names()
    assert all(contestant.options == {} for contestant in parse_models("all"))


def test_baselines_beside_the_network(rescnet, save_png, tmp_path, monkeypatch):
    monkeypatch.setattr("rescnet.compare.baselines.TREES", 30)
    rng = np.random.default_rng(0)
    for name, light in (("dark", 60), ("light", 180)):
        for number in range(20):
            save_png(tmp_path / "set" / name / f"{number}.png", rng.integers(light - 50, light + 50, (12, 12)))
    models = "svc,rescnet:layers=1:filters=4,forest,hog-svm,pcanet:filters=2/2"
    result = rescnet("compare", tmp_path / "set", "--models", models, "--image-size", "8,8", "--json")
    rows = {row["model"]: row for row in json.loads(result.stdout)}
    assert list(rows) == models.split(",")
    assert all(row["error"] == "" for row in rows.values())
    assert rows["svc"]["accuracy"] == rows["forest"]["accuracy"] == 1
    assert rows["rescnet:layers=1:filters=4"]["config"]["filters"] == 4


def test_the_number_of_models_is_said_first(rescnet, monkeypatch):
    """All of them take minutes, also on few images."""
    monkeypatch.setattr("rescnet.compare.comparison.compare_models", lambda *_: iter(()))
    said = f"{len(parse_models('all'))} models, one after another; --models chooses some\n"
    assert rescnet("compare").stdout.startswith(said)
    assert "one after another" not in rescnet("compare", "--models", "svc,forest").stdout
