"""What a person reads before a run starts."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

from rescnet import NetworkConfig
from rescnet.network import Network
from rescnet.progress import TrainingTable
from rescnet.training.memory import plan_memory


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
