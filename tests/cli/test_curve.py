"""``rescnet curve``: points, file, figure and the sentence about the crossing."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from rescnet.data.splits import first_of_each_class
from rescnet.experiments.curve import crossings, curves_of, describe_crossing

pytestmark = pytest.mark.slow

MODELS = "stacked-lda:discriminants=20,svc"


@pytest.fixture(scope="module")
def measured(tmp_path_factory, rescnet):
    place = tmp_path_factory.mktemp("curve")
    words = ["--models", MODELS, "--images-per-class", "20,4", "--out", place / "points.json"]
    return rescnet("curve", *words, "--plot", place / "curve.svg"), place


def test_points_table_and_sentence(measured):
    result, place = measured
    assert result.exit_code == 0, result.output
    points = json.loads((place / "points.json").read_text())
    ours, theirs = MODELS.split(",")
    expected = [(theirs, 4, 40), (ours, 4, 40), (theirs, 20, 200), (ours, 20, 200)]  # baselines before the family
    assert [(p["model"], p["images_per_class"], p["train_images"]) for p in points] == expected
    assert all(0.3 < p["accuracy"] < 1 and p["commit"] and p["seconds"] > 0 for p in points)
    assert result.stdout.splitlines()[-1] == describe_crossing(curves_of(points), ours, theirs)
    assert f"{100 * points[2]['accuracy']:.2f}" in result.stdout.splitlines()[-2]


def test_figure(measured):
    texts = {
        text.text for text in ElementTree.parse(measured[1] / "curve.svg").iter("{http://www.w3.org/2000/svg}text")
    }
    assert {"4", "20", "svc", "training images per class"} <= texts


def test_other_points_and_seeds_are_kept(measured, rescnet, tmp_path):
    file = tmp_path / "points.json"
    file.write_text((measured[1] / "points.json").read_text())
    words = ["--models", "svc", "--images-per-class", "4", "--out", file, "--add"]
    before = file.read_text()
    result = rescnet("curve", *words, "--plot", tmp_path / "again.svg")
    assert result.exit_code == 0 and "per class  svc" not in result.stdout  # the file has it
    assert file.read_text() == before and (tmp_path / "again.svg").exists()
    assert rescnet("curve", *words, "--seed", 1).exit_code == 0
    points = json.loads(file.read_text())
    assert len(points) == 5
    of_seeds = [p["accuracy"] for p in points if p["model"] == "svc" and p["images_per_class"] == 4]
    assert curves_of(points)["svc"][4] == pytest.approx(np.mean(of_seeds)) and len(set(of_seeds)) == 2


def test_the_first_images_of_each_class():
    assert first_of_each_class(np.array([1, 0, 1, 1, 0, 0, 1, 2]), 2).tolist() == [0, 1, 2, 4, 7]


def test_sentences():
    curve = {10: 0.5, 100: 0.7, 1000: 0.9}
    assert crossings(curve, {10: 0.6, 1000: 0.8}) == pytest.approx([100])
    curves = {"us": curve, "low": {10: 0.4, 1000: 0.8}, "late": {10: 0.4, 100: 0.8, 1000: 0.8}, "none": {5: 0.3}}
    assert describe_crossing(curves, "us", "low") == (
        "us is ahead of low at 10 to 1,000 images per class; the curves do not cross."
    )
    assert describe_crossing(curves, "us", "late") == (
        "us and late cross at about 32 images per class: us is ahead below; the lead changes again at about 320."
    )
    assert describe_crossing(curves, "late", "us").startswith("late and us cross at about 32 images per class: us is")
    assert describe_crossing({"us": {3: 1.0, 6: 1.0}, "svc": {3: 1.0, 6: 1.0}}, "us", "svc") == "us and svc are level."
    assert describe_crossing({"us": {3: 1.0, 6: 0.9}, "svc": {3: 1.0, 6: 1.0}}, "us", "svc").startswith("svc is ahead")
    assert describe_crossing(curves, "us", "none") == "us and none have no point in common."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--images-per-class", "10,many"], "images_per_class must be whole numbers, e.g. 10,50,100, got '10,many'"),
        (["--images-per-class", "0"], "images per class must be between 1 and 1"),
        (["--images-per-class", "5000"], "images per class must be between 1 and 1"),
        (["--models", "resnet18:epoch=3"], "Did you mean 'epochs'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(refused, words, message):
    assert message in refused("curve", *words)


def test_the_default_numbers_fit_the_images(rescnet, pictures):
    """With fewer images per class than the usual numbers, the curve has fewer points instead of an error."""
    result = rescnet("curve", pictures, "--models", "stacked-lda:discriminants=20")
    assert result.exit_code == 0, result.output
    fewest = min(len(list(folder.iterdir())) for folder in (pictures / "train").iterdir())
    assert 10 <= fewest < 20
    assert [line.split()[0] for line in result.stdout.splitlines() if "per class  stacked" in line] == ["5", "10"]
