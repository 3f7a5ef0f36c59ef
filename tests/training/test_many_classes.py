"""A thousand classes cost one factorisation and one pass over the features per layer, like two classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from train_network import train_network

from rescnet import NetworkConfig
from rescnet.network.memory import RunSizes
from rescnet.network.stack import LayerStack
from rescnet.training.memory_plan import Machine, MemoryPlan

CONFIG = NetworkConfig(filters=6, layers=2, block_sizes=(4,), block_stride=2, pyramid=(2, 1), stop_at_zero_error=False)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 1000])
def test_the_number_of_classes_does_not_change_the_number_of_passes(classes, monkeypatch):
    rng = np.random.default_rng(0)
    labels = np.arange(2000) % classes
    images = (rng.normal(0, 20, (2000, 3, 8, 8)) + rng.uniform(0, 255, (classes, 3, 8, 8))[labels]).clip(0, 255)
    factorised, passed = [], []
    cholesky, features = torch.linalg.cholesky_ex, LayerStack.features
    monkeypatch.setattr(torch.linalg, "cholesky_ex", lambda matrix: factorised.append(1) or cholesky(matrix))
    monkeypatch.setattr(LayerStack, "features", lambda self, maps: passed.append(len(maps)) or features(self, maps))
    _, history = train_network(images.astype(np.uint8), labels, CONFIG)
    assert len(factorised) == CONFIG.layers
    assert sum(passed) == CONFIG.layers * len(images)
    assert history[-1].train_accuracy > 0.9


def test_the_plan_knows_the_heads_of_all_layers():
    machine = Machine(torch.device("cpu"), 10**10)
    few, many = (MemoryPlan.of(CONFIG, RunSizes((3, 8, 8), classes, 2000), machine) for classes in (10, 1000))
    one_head = few.features * 2 * 990 * 4
    assert many.gram_bytes - few.gram_bytes >= CONFIG.layers * one_head
