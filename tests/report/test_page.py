from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rescnet import RescnetError
from rescnet.data import Dataset, ImageSet, load
from rescnet.network.history import History
from rescnet.pages import as_json
from rescnet.report import write_report

pytestmark = pytest.mark.slow


def test_one_reproducible_file(model, dataset, tmp_path):
    first = write_report(model, tmp_path / "one.html", dataset)
    second = write_report(model, str(tmp_path / "two.html"), dataset)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.html", "two.html"]
    addresses = set(re.findall(r"https?://[^'\"\s]+", first.read_text()))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, never requested
    assert first.stat().st_size < 500_000


def test_overwrite(model, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(ValueError, match=r"path must be a new file, got .*report\.html"):
        write_report(model, path)
    assert path.read_text() == "mine"
    assert write_report(model, path, overwrite=True) == path
    assert path.read_text().startswith("<!DOCTYPE html>")


def test_failure_keeps_the_old_file(model, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("mine")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk gone")))
    with pytest.raises(OSError, match="disk gone"):
        write_report(model, path, overwrite=True)
    assert path.read_text() == "mine"
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]


def test_bad_input_writes_nothing(model, dataset, tmp_path):
    def images(shape=(3, 12, 12), names=dataset.class_names):
        return ImageSet(np.zeros((4, *shape), np.uint8), np.zeros(4, np.int64), names)

    target = tmp_path / "report.html"
    empty = replace(model.network, stack=replace(model.network.stack, layers=[]))
    larger, renamed = images((3, 14, 14)), images(names=("ant", "bee", "cat", "dog", "fox", "elk"))
    for message, arguments in (
        (r"path must be a file, got the folder", {"path": tmp_path}),
        (r"must be in an existing folder, got .*nowhere", {"path": tmp_path / "nowhere" / "report.html"}),
        (
            r"must have test or validation images, got neither\. .*\(--without-images;",
            {"dataset": Dataset("bare", images())},
        ),
        (r"network's shape \(3, 12, 12\) .*, got \(3, 14, 14\)", {"dataset": Dataset("large", larger, larger)}),
        (
            r"classes ant, bee, cat, dog, … \(6\), got ant, bee, cat, dog",
            {"dataset": Dataset("renamed", renamed, renamed)},
        ),
        (r"images_shown must be at least 1, got 0", {"dataset": dataset, "images_shown": 0}),
        (r"model must have labels, got a network", {"model": model.network}),
        (r"Write rescnet\.write_report\(model, path\)", {"model": target, "path": model}),
        (r"must have at least one layer, got none", {"model": replace(model, network=empty, history=History())}),
    ):
        with pytest.raises(RescnetError, match=message):
            write_report(**{"model": model, "path": target} | arguments)
        assert list(tmp_path.iterdir()) == []


def test_data_agree_with_the_network(model, dataset, report_data):
    data = report_data(model, dataset)
    assert [layer["layer"] for layer in data["filters"]] == [1, 2, 3, 5]
    recorded = [record.test_accuracy for record in model.history]
    np.testing.assert_allclose(data["curves"]["test"], recorded, atol=1e-5)
    assert data["summary"]["notes"] == []
    assert data["summary"]["best_depth"] == model.history.best_layer()
    assert data["training"]["positive"] == [round(layer.positive_share, 4) for layer in model.network.layers]
    for stage in data["training"]["stages"]:
        assert stage["total"] == pytest.approx(sum(stage["seconds"]), abs=1e-3)
    outputs = model.network.outputs(dataset.test.images).numpy()
    for image in data["images"]:
        assert image["prediction"] == outputs[image["index"]].argmax()
        np.testing.assert_allclose([line[-1] / 10_000 for line in image["outputs"]], outputs[image["index"]], atol=6e-5)


def test_a_source_is_loaded(model, dataset, tmp_path):
    test, names = dataset.test, dataset.class_names
    images = {"x_train": test.images, "y_train": test.labels, "x_test": test.images[:20], "y_test": test.labels[:20]}
    np.savez(tmp_path / "own.npz", **images, class_names=names)
    pages = [
        write_report(model, tmp_path / "r.html", given, images_shown=1, overwrite=True).read_text()
        for given in (load(tmp_path / "own.npz"), tmp_path / "own.npz", str(tmp_path / "own.npz"))
    ]
    assert pages[0] == pages[1] == pages[2] and "own" in pages[0]


def test_note_on_other_images(model, dataset, report_data):
    few = ImageSet(dataset.test.images[:10], (dataset.test.labels[:10] + 1) % 6, dataset.class_names)
    data = report_data(model, Dataset("blobs", dataset.train, None, few))
    assert data["summary"]["notes"][0].startswith("Training recorded")


def test_json_has_no_tags():
    text = as_json({"<a>&": "</script>\u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"<a>&": "</script>\u2028"}
