"""Predictions of few images: recorded at their second use, and the same as computed afresh."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from train_network import train_network

from rescnet import ComputeOptions, NetworkConfig
from rescnet.network.replay import MOST_GRAPHS, Replays


class Recorded:
    """Stands in for a CUDA graph: remembers the function, and counts."""

    made = 0

    def __init__(self, predict, images, held, before):
        type(self).made += 1
        self.predict = predict

    def __call__(self, images):
        return self.predict(images)


def test_a_key_is_recorded_at_its_second_use(monkeypatch):
    monkeypatch.setattr("rescnet.network.replay._Graph", Recorded)
    monkeypatch.setattr(Recorded, "made", 0)
    replays, images = Replays(), torch.ones(1)
    made = []
    for _ in range(3):
        assert float(replays.outputs("a", lambda x: 2 * x, images)) == 2
        made.append(Recorded.made)
    assert made == [0, 1, 1]
    assert float(replays.outputs("b", lambda x: 3 * x, images)) == 3
    for number in range(2 * MOST_GRAPHS):
        replays.outputs(number, lambda x: x, images)
    assert len(replays._predictions) <= MOST_GRAPHS


def test_copies_do_not_share_graphs(monkeypatch):
    monkeypatch.setattr("rescnet.network.replay._Graph", Recorded)
    replays = Replays()
    for _ in range(2):
        replays.outputs("a", torch.square, torch.ones(1))
    assert copy.deepcopy(replays)._predictions == {}
    assert pickle.loads(pickle.dumps(replays))._predictions == {}


def test_a_prediction_that_cannot_be_recorded_is_computed(monkeypatch):
    def refuse(*_):
        raise RuntimeError("cannot copy from the host during capture")

    monkeypatch.setattr("rescnet.network.replay._Graph", refuse)
    replays = Replays()
    for value in (1.0, 2.0, 3.0):
        assert float(replays.outputs("a", torch.square, torch.tensor(value))) == value**2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
@pytest.mark.parametrize("readout", ["heads", "kernel"])
@pytest.mark.parametrize(
    "options", [{"head": "ridge", "loo_correction": True}, {"head": "multiclass-lda", "test_views": "flip"}]
)
def test_replayed_outputs_equal_computed_ones(readout, options):
    images = torch.randint(0, 256, (300, 3, 16, 16), dtype=torch.uint8)
    shape = {"block_sizes": (8,), "block_stride": 2, "pyramid": (2, 1), "rectifier": "both"}
    config = NetworkConfig(layers=3, filters=8, readout=readout, **shape, **options)
    network, _ = train_network(images[:280], torch.arange(280) % 4, config, compute=ComputeOptions())
    for image in images[280:, None]:
        for given in (image, image.float() + 0.25):  # a graph of bytes cannot take fractions
            torch.testing.assert_close(network.outputs(given), network._computed(given), atol=1e-5, rtol=1e-5)
    plain = replace(network, stack=replace(network.stack, half=False))
    if network.readout:  # the graph keeps the tensors that another precision pushes out of the readout's cache
        plain.outputs(images)
        spoiled = [torch.full((10**7,), torch.nan, device="cuda") for _ in range(4)]
        torch.testing.assert_close(network.outputs(image), network._computed(image), atol=1e-5, rtol=1e-5)
        assert len(spoiled) == 4
