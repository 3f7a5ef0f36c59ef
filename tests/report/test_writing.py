from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from rescnet.data import Dataset, ImageSet
from rescnet.network.model import Model
from rescnet.report import write_report, writing
from rescnet.report.page import as_json


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)[1])


def test_the_page_is_one_file_and_the_same_each_time(model, dataset, tmp_path):
    first = write_report(model, tmp_path / "one.html", dataset)
    second = write_report(model, str(tmp_path / "two.html"), dataset)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.html", "two.html"]
    addresses = set(re.findall(r"https?://[^'\"\s]+", first.read_text()))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which nothing fetches
    assert first.stat().st_size < 500_000


def test_a_real_model_is_taken(model, tmp_path):
    real = Model(model.network, model.history, model.class_names, model.about)
    assert data_of(write_report(real, tmp_path / "real.html"))["headline"]["classes"][0] == "ant"


def test_an_existing_file_is_written_over_only_when_told(model, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(ValueError, match=r"report\.html is there already: choose another name"):
        write_report(model, path)
    assert path.read_text() == "mine"
    assert write_report(model, path, overwrite=True) == path
    assert path.read_text().startswith("<!DOCTYPE html>")


def test_a_failure_leaves_what_was_there(model, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("mine")
    monkeypatch.setattr(writing.Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk gone")))
    with pytest.raises(OSError, match="disk gone"):
        write_report(model, path, overwrite=True)
    assert path.read_text() == "mine"
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]


def test_bad_input_is_one_sentence_and_writes_nothing(model, dataset, tmp_path):
    def images(shape=(3, 12, 12), names=dataset.class_names):
        return ImageSet(np.zeros((4, *shape), np.uint8), np.zeros(4, np.int64), names)

    target = tmp_path / "report.html"
    larger, renamed = images((3, 14, 14)), images(names=("ant", "bee", "cat", "dog", "fox", "elk"))
    for wanted, arguments in (
        (r"is a folder: give the name of the file", {"path": tmp_path}),
        (r"there is no folder .*nowhere: create it", {"path": tmp_path / "nowhere" / "report.html"}),
        (r"neither test nor validation images: .* \(--without-images;", {"dataset": Dataset("bare", images())}),
        (r"shape \(3, 12, 12\) .*, got \(3, 14, 14\)", {"dataset": Dataset("large", larger, larger)}),
        (r"the model knows ant, bee, cat, dog, … \(6\)", {"dataset": Dataset("renamed", renamed, renamed)}),
        (r"images_shown is 0: choose 1 or more", {"dataset": dataset, "images_shown": 0}),
        (r"filters of layer 9 were asked for but there are 5", {"filter_layers": [1, 9]}),
        (r"names 1 classes but its network has 6", {"model": model.having(class_names=("one",))}),
        (r"no layers: train it", {"model": model.having(network=replace(model.network, layers=[]))}),
    ):
        with pytest.raises(ValueError, match=wanted):
            write_report(**{"model": model, "path": target} | arguments)
        assert list(tmp_path.iterdir()) == []


def test_the_data_agree_with_the_network(model, dataset, tmp_path):
    data = data_of(write_report(model, tmp_path / "report.html", dataset, filter_layers=[2, 5, 2]))
    assert [layer["layer"] for layer in data["filters"]] == [2, 5]
    recorded = [record.test_accuracy for record in model.history]
    np.testing.assert_allclose(data["curves"]["test"], recorded, atol=1e-5)
    assert data["headline"]["notes"] == []
    assert data["headline"]["chosen"] == model.history.best_layer()
    assert data["run"]["positive"] == [round(layer.positive_share, 4) for layer in model.network.layers]
    for stage in data["run"]["stages"]:
        assert stage["total"] == pytest.approx(sum(stage["seconds"]), abs=1e-3)
    outputs = model.network.outputs(dataset.test.images).numpy()
    for image in data["images"]:
        assert image["answer"] == outputs[image["index"]].argmax()
        np.testing.assert_allclose([line[-1] / 10_000 for line in image["outputs"]], outputs[image["index"]], atol=6e-5)


def test_other_images_than_in_training_get_a_note(model, dataset, tmp_path):
    few = ImageSet(dataset.test.images[:10], (dataset.test.labels[:10] + 1) % 6, dataset.class_names)
    data = data_of(write_report(model, tmp_path / "report.html", Dataset("blobs", dataset.train, None, few)))
    assert data["headline"]["notes"][0].startswith("Training recorded")


def test_json_holds_no_tag():
    text = as_json({"<a>&": "</script>\u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"<a>&": "</script>\u2028"}
