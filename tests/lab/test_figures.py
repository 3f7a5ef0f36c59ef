"""The figures of the record: each names its runs, with their accuracy."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from lab import drawing, figures
from lab.records import runs_of

pytestmark = pytest.mark.slow


def texts_of(file):
    return [text.text for text in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "FIGURES", tmp_path)
    return tmp_path


def test_a_league_names_every_model_with_its_accuracy(place):
    figures.leagues()
    texts = texts_of(place / "league-mnist.svg")
    assert {"measured", "published"} <= set(texts)
    for run in runs_of(file="league-mnist"):
        if run.get("accuracy"):
            assert run["model"].replace(":", ", ")[:46] in texts
            assert any(text.startswith(f"{100 * run['accuracy']:.2f} % · ") for text in texts if text)


def test_layers_of_a_table_stand_beside_the_papers_figures(place):
    figures.curves("table2", "mnist")
    texts = texts_of(place / "table2-mnist.svg")
    assert "paper 99.52" in texts and "MNIST, 60,000 images" in texts


def test_a_long_line_keeps_its_ends():
    points = drawing.thin(range(1000), 80)
    assert points[0] == 0 and points[-1] == 999 and len(points) <= 81
    assert drawing.thin([1, 2, 3]) == [1, 2, 3]
