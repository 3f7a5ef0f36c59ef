"""The plot of a run's accuracies."""

from __future__ import annotations

import sys

import pytest

from rescnet.network.history import History, LayerRecord, ReadoutRecord


def history(test=None, readout=None):
    records = [
        LayerRecord(layer, 0.5 + layer / 10, 0.4 + layer / 10, test, 0.5, 1.0, 0.1, {"fit": 1.0}, 0)
        for layer in (1, 2, 3)
    ]
    return History(records, readout=readout)


@pytest.fixture
def plt(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def drawn(axes):
    """Return the points of each line in the legend, by its label."""
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def test_each_split_is_a_line_and_the_readout_a_star(plt):
    readout = ReadoutRecord(validation_accuracy=0.9, loo_accuracy=0.75, images=10)
    axes = history(readout=readout).plot()
    found = drawn(axes)
    assert list(found) == ["training", "training, leave-one-out", "validation", "validation, with the readout"]
    assert found["training"] == [[1, 60], [2, 70], [3, 80]]
    assert found["training, leave-one-out"] == [[4, 75]] and found["validation, with the readout"] == [[4, 90]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3", "readout"]
    assert axes.get_ylabel() == "accuracy, %"


def test_it_draws_on_given_axes_and_without_a_readout(plt):
    _, axes = plt.subplots()
    assert history(test=0.5).plot(axes) is axes
    assert list(drawn(axes)) == ["training", "validation", "test"]
    assert axes.get_xticks().tolist() == [1, 2, 3] and len(plt.get_fignums()) == 1


def test_a_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ValueError, match="needs matplotlib"):
        history().plot()
