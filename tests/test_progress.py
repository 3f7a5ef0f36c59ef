"""What a person reads before a run starts, and at its end."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

from rescnet import ComputeOptions, NetworkConfig, make_config
from rescnet.network import Network
from rescnet.progress import TrainingTable
from rescnet.training.memory import plan_memory
from rescnet.training.trainer import Trainer


@pytest.mark.parametrize(
    ("place", "device", "words"),
    [
        ("auto", "cpu", "205 MB maps in memory;\n"),
        ("device", "2 workers, cuda:0", "205 MB maps on the GPU;\n"),
        ("host", "cuda:0", "205 MB maps on the host, streamed;\n"),
        ("file", "cpu", "205 MB maps in a file, streamed;\n"),
    ],
)
def test_the_plan_says_where_maps_live(place, device, words):
    config, said = NetworkConfig(filters=50), io.StringIO()
    plan = plan_memory(config, (3, 32, 32), 10, 1000, 0, 4, False, 8 * 10**9, torch.device("cpu"), place)
    with TrainingTable(Console(file=said, width=200), "digits", device) as table:
        table.planned(Network(config, (3, 32, 32), 10), plan)
    assert words in said.getvalue()


@pytest.mark.parametrize(("layers", "stops", "helps"), [(20, True, True), (20, False, False), (2, True, False)])
def test_few_images_that_are_learnt_at_once_are_told_of_more_layers(layers, stops, helps):
    """Two layers were added; only a run that could have had more, and stopped by training images, says so."""
    images, labels = torch.rand(12, 1, 8, 8).numpy(), torch.arange(12).numpy() % 3
    config, said = make_config("digits", layers=layers, stop_at_zero_error=stops), io.StringIO()
    with TrainingTable(Console(file=said, width=200), "digits", "cpu") as table:
        trainer = Trainer(images, labels, config, None, None, ComputeOptions())
        table.planned(trainer.network, trainer.plan)
        for _ in range(2):
            table.layer_added(trainer.add_layer())
        assert trainer.history[-1].train_accuracy == 1
        table.finished(trainer.history)
    assert ("--no-stop-at-zero-error" in said.getvalue()) == helps
