"""The page as a file, and the command that writes it."""

from __future__ import annotations

import json
import re
import webbrowser

import numpy as np
import pytest
from digits import IMAGES, LABELS
from train_network import train_network
from typer.testing import CliRunner

from rescnet import Config, Model, NetworkConfig, save
from rescnet.cli import app
from rescnet.pages import asset
from rescnet.playground import build_page
from rescnet.playground import model as playground_model
from rescnet.playground.model import OPTIONS, model_data
from rescnet.playground.page import SCRIPTS


@pytest.fixture(scope="module")
def model(one_thread):
    config = Config("digits", layers=2, filters=6).complete()
    network, history = train_network(IMAGES[:100], LABELS[:100], config)
    return Model(network, history, (*"abcdefghi", "</script>"), {"dataset": "digits"})


def run(*arguments):
    return CliRunner().invoke(app, ["playground", *map(str, arguments)])


def test_bundled_digits():
    digits = json.loads(asset("rescnet.playground", "digits.json"))
    for label in range(10):
        own = IMAGES[np.equal(LABELS, label)].reshape(-1, 64)
        held = [[int(level, 17) for level in text] for text in digits["train"][label] + digits["test"][label]]
        np.testing.assert_array_equal(held, own[:30])


def test_one_small_file():
    page = build_page()
    assert len(page.encode()) < 500_000
    assert not re.search(r"(src|href)=", page) and "<!--" not in page
    assert all(asset("rescnet.playground", name) in page for name in SCRIPTS)


def test_options_of_the_page_are_those_of_the_library():
    listed = re.search(r"const DEFAULT_CONFIG = \{(.*?)\};", asset("rescnet.playground", "network.js"), re.DOTALL)[1]
    names = set(re.findall(r"(\w+): ", listed))
    assert names <= set(vars(NetworkConfig())) and set(OPTIONS) <= names


def test_command_without_a_model(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert run("--out", tmp_path / "page.html").exit_code == 0
    assert (tmp_path / "page.html").read_text("utf-8") == build_page()
    assert opened == [(tmp_path / "page.html").as_uri()]
    assert run("--no-open").exit_code == 0 and len(opened) == 1
    again = run("--out", tmp_path / "page.html", "--no-open")
    assert again.exit_code == 2 and "must be a new file" in again.stderr


def test_command_with_a_model(model, tmp_path):
    save(model, tmp_path / "model")
    assert run(tmp_path / "model", "--no-open", "--out", tmp_path / "page.html").exit_code == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "\\u003c/script\\u003e" in page and page.count("</script>") == build_page().count("</script>")


def test_layers_without_a_model():
    found = run("--layers", 2, "--no-open")
    assert found.exit_code == 2 and "MODEL must be given" in found.stderr


def test_large_models_are_refused(model, monkeypatch):
    monkeypatch.setattr(playground_model, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="model must have at most 1 kB of layers"):
        model_data(model)


def test_a_large_readout_is_left_out(one_thread, monkeypatch):
    config = Config(layers=1, filters=4).complete((1, 8, 8), images=60)
    network, history = train_network(IMAGES[:60], LABELS[:60], config)
    model = Model(network, history, tuple("0123456789"))
    assert model_data(model)["readout"] and "left out here" not in dict(model_data(model)["facts"])
    monkeypatch.setattr(playground_model, "MOST_BYTES", 30_000)
    data = model_data(model)
    assert data["readout"] is None and dict(data["facts"])["left out here"] == "kernel readout"
