"""A tiny trained model, and helpers to forge its files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
from train_network import train_network

from rescnet import NetworkConfig
from rescnet.model import Model, describe_images
from rescnet.network.history import History
from rescnet.saving import layout

TINY = {"filters": 3, "layers": 3, "block_sizes": [4], "block_stride": 2, "pyramid": (2, 1), "bank": "pca"}
NAMES = ("ant", "bee", "Käfer")


def noise():
    """Return 30 random images uint8 (30, 1, 8, 8)."""
    return np.random.default_rng(1).integers(0, 256, (30, 1, 8, 8)).astype(np.uint8)


def make_model(**options):
    """Train a model of three layers and three classes."""
    images = noise()
    config = NetworkConfig(**TINY | {"stop_at_zero_error": False} | options)
    network, history = train_network(images, np.arange(30) % 3, config, validation=(images[:9], np.arange(9) % 3))
    return Model(network, history, NAMES, {"dataset": "noise", "preprocessing": describe_images(images)})


def with_layers(network, layers):
    """Return the network with other layers."""
    return replace(network, stack=replace(network.stack, layers=layers), used_layers=len(layers))


def first_layers(model, layers):
    """Return the model of the first layers."""
    network = with_layers(model.network, model.network.layers[:layers])
    return replace(model, network=network, history=History(model.history.records[:layers], model.history.stopped))


def check_message(error, *words):
    """Check that the error is one or two sentences on one line with these words."""
    text = str(error.value)
    assert "\n" not in text and text.rstrip(".").count(". ") <= 1, text
    for word in words:
        assert word in text, text


def signed(content, **changes):
    """Return the text of model.json with other content and a valid checksum."""
    return json.dumps(layout.sign(content | changes))


def change_model_json(folder, change):
    """Change the content of model.json in place and sign it."""
    file = folder / "model.json"
    content = json.loads(file.read_text())
    change(content)
    file.write_text(signed(content))
    return content


def change_history(folder, change):
    """Change the lines of the history in place, sign them, and seal the model with the last one."""
    file, previous, made = folder / "history.jsonl", [""], []
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    change(lines)
    for line in lines:
        made.append(layout.sign(line, previous[-1]))
        previous.append(made[-1]["checksum"])
    file.write_text("".join(json.dumps(line) + "\n" for line in made))
    sealed = {"layers": len(made), "checksum": previous[-1], "previous": previous[-2]}
    change_model_json(folder, lambda content: content.update(sealed=sealed))
