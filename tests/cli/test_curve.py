"""``rescnet curve``: points, file and figure."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from rescnet.data.splits import first_of_each_class

pytestmark = pytest.mark.slow

MODELS = "stacked-lda:discriminants=20,svc"


@pytest.fixture(scope="module")
def measured(tmp_path_factory, rescnet):
    place = tmp_path_factory.mktemp("curve")
    words = ["--models", MODELS, "--images-per-class", "20,4", "--out", place / "points.json"]
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        return rescnet("curve", *words, "--plot", place / "curve.svg"), place


def test_points_and_table(measured):
    result, place = measured
    assert result.exit_code == 0, result.output
    points = json.loads((place / "points.json").read_text())
    ours, theirs = MODELS.split(",")
    expected = [(ours, 4), (theirs, 4), (ours, 20), (theirs, 20)]
    assert [(p["model"], p["images_per_class"]) for p in points] == expected
    assert all(0.3 < p["accuracy"] < 1 and p["command"] and p["seconds"] > 0 for p in points)
    last = result.stdout.splitlines()[-1].split()
    assert last == ["20", *(f"{100 * point['accuracy']:.2f}" for point in points[2:])]


def test_figure(measured):
    texts = {
        text.text for text in ElementTree.parse(measured[1] / "curve.svg").iter("{http://www.w3.org/2000/svg}text")
    }
    assert {"4", "20", "svc", "training images per class"} <= texts


def test_the_first_images_of_each_class():
    assert first_of_each_class(np.array([1, 0, 1, 1, 0, 0, 1, 2]), 2).tolist() == [0, 1, 2, 4, 7]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--images-per-class", "10,many"], "images_per_class must be whole numbers, e.g. 10,50,100, got '10,many'"),
        (["--images-per-class", "0"], "images per class must be between 1 and 1"),
        (["--images-per-class", "5000"], "images per class must be between 1 and 1"),
        (["--models", "rescnet:layer=3"], "Did you mean 'layers'"),
        (["--plot", "curve.txt"], "path must end in .svg or .png, got curve.txt"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(refused, words, message):
    assert message in refused("curve", *words)


def test_a_figure_without_matplotlib_is_refused_before_any_work(refused, monkeypatch):
    monkeypatch.setattr("rescnet.cli.compare.find_spec", lambda name: None)
    assert "pip install matplotlib" in refused("curve", "--plot", "curve.svg")


def test_the_default_numbers_fit_the_images(rescnet, pictures):
    """With fewer images per class than the usual numbers, the curve has fewer points instead of an error."""
    result = rescnet("curve", pictures, "--models", "stacked-lda:discriminants=20")
    assert result.exit_code == 0, result.output
    fewest = min(len(list(folder.iterdir())) for folder in (pictures / "train").iterdir())
    assert 10 <= fewest < 20
    assert [line.split()[0] for line in result.stdout.splitlines() if "per class  stacked" in line] == ["5", "10"]
