"""Several readouts of the same layers, on a few images."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lab.readouts import changes_of, configs_of, main
from rescnet import Config
from rescnet.data import Dataset, ImageSet


def test_options_are_read_as_numbers_or_words():
    assert changes_of("kernel_ridge=0.03; kernel_copies=1 shift 2") == {
        "kernel_ridge": 0.03,
        "kernel_copies": "1 shift 2",
    }
    assert changes_of("") == {}


def test_each_readout_uses_its_own_options_and_the_same_layers(blobs, monkeypatch, tmp_path):
    images, labels = blobs
    parts = [
        ImageSet(images[part], labels[part].astype(np.int64), tuple("abcdef")) for part in (slice(90), slice(90, 150))
    ]
    monkeypatch.setattr("lab.readouts.load", lambda name: Dataset(name, parts[0], None, parts[1]))
    out = tmp_path / "entry.json"
    changes = "layers=1; stack_depth=1; filters=4; grey_stack_every=0; block_sizes=[4]; bank=pca"
    words = ["cifar10-best", "--held-out", "30", "--changes", changes, "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["readouts", *words, "--readout", "readout_size=1", "--readout", "kernel_ridge=10"])
    main()
    preset, fewer, other = json.loads(out.read_text())["runs"]
    assert preset["readout"] == "preset"
    assert fewer["ridge"] == preset["ridge"] == pytest.approx(0.01) and other["ridge"] == pytest.approx(10)
    assert fewer["validation_accuracy"] < 0.8 < preset["validation_accuracy"]


@pytest.mark.parametrize("words", ["ridge=50", "test_views=flip", "layers=2", "readout=heads"])
def test_only_options_of_the_readout_may_change(words):
    with pytest.raises(ValueError, match=f"got {words.partition('=')[0]}. Use --changes for layers"):
        configs_of(Config("cifar10-best").complete(), [words])


def test_a_network_without_a_readout_is_refused():
    with pytest.raises(ValueError, match="readout must be kernel, got heads"):
        configs_of(Config("cifar10").complete(), [])
