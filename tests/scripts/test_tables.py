"""Tables and plots of the docs are made from results, and say so where there are none."""

from __future__ import annotations

import json

import pytest
from tables import bench, common, side_by_side

ORIGIN = {"device": "a GPU", "versions": {"torch": "2"}, "commit": "abc", "command": "do it"}


@pytest.fixture
def results(tmp_path, monkeypatch):
    for module in (bench, common, side_by_side):
        for name, folder in (("RESULTS", tmp_path), ("DOCS", tmp_path)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, folder)
    return tmp_path


def test_without_results_the_docs_say_so(results):
    for rows in (bench.stages(), bench.heads(), side_by_side.table()):
        assert len(rows) == 1 and rows[0].startswith("*Not run yet")
    assert bench.pictures() == side_by_side.pictures() == {}


def test_side_by_side_looks_at_moments_and_at_held_out_images(results):
    epochs = [(4.0, 0.5, 0.50), (14.0, 0.7, 0.69), (30.0, 0.6, 0.72)]
    history = [
        {"epoch": n + 1, "seconds": s, "validation_accuracy": v, "test_accuracy": t}
        for n, (s, v, t) in enumerate(epochs)
    ]
    layers = [{"layer": 1, "seconds": 0.5, "test_accuracy": 0.4}, {"layer": 2, "seconds": 70, "test_accuracy": 0.6}]
    result = {
        "dataset": "cifar10",
        "images": {"train": 45_000},
        **ORIGIN,
        "neighbour": {"name": "resnet18", "recipe": {"flips": False}, "history": history},
        "ours": {"name": "ResCNet", "history": layers},
    }
    (results / "side-by-side-cifar10.json").write_text(json.dumps(result))
    rows = side_by_side.table()
    (theirs,) = [row for row in rows if row.startswith("| resnet18")]
    assert theirs == "| resnet18 | 50.00 | 69.00 | – | – | – | **69.00** (epoch 2, 14 s) | **72.00** (epoch 3, 30 s) |"
    (ours,) = [row for row in rows if row.startswith("| ResCNet")]
    assert ours == "| ResCNet | 40.00 | 40.00 | 40.00 | – | – | – | **60.00** (layer 2, 70 s) |"
    ((file, chart),) = side_by_side.pictures().items()
    assert file.name == "side-by-side.svg" and chart.count("<polyline") == 2


def test_a_stage_shows_its_seconds_and_how_near_the_ceiling_it_is(results):
    stage = {"seconds": 0.2, "least_seconds": 0.05}
    run = {
        "name": "cifar10 balanced",
        "features": 17150,
        "seconds": 0.21,
        "seconds_by_stage": {"pooling": 0.2, "new": 0.01},
        "stages": {"pooling": stage},
        "peak_memory": 12e9,
        "ceilings": {"float16": 7e14, "copy": 4e12},
        "protocol": "median",
        **ORIGIN,
    }
    (results / "bench-x.json").write_text(json.dumps([run]))
    rows = bench.stages()
    assert "| cifar10 balanced | 17,150 | **0.210 s** | 0.050 s | 0.200 (25 %) | 0.010 | 12.0 GB |" in rows
    assert any("float16 700 TFLOP/s" in row for row in rows)
    assert [file.name for file in bench.pictures()] == ["bench-x.svg"]
