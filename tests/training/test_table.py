"""The console table: the plan before a run, the time left, and the summary."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from rescnet import ComputeOptions, Config, Network, NetworkConfig
from rescnet.network.history import History, LayerRecord, ReadoutRecord, StopReason
from rescnet.network.memory import RunSizes
from rescnet.network.stack import LayerStack
from rescnet.training.data import TrainingData
from rescnet.training.memory_plan import Machine, MemoryPlan
from rescnet.training.table import TrainingTable
from rescnet.training.trainer import Trainer
from rescnet.training.workers import Workers


def plan_of(config, place="auto"):
    return MemoryPlan.of(config, RunSizes((3, 32, 32), 10, 1000), Machine(torch.device("cpu"), 8 * 10**9), place)


def lines_of(config, *records, device="cpu", place="auto"):
    """Return the lines of a table that has had the plan and these records."""
    said = io.StringIO()
    with TrainingTable(Console(file=said, width=200), "digits", device) as table:
        table.planned(Network(LayerStack(config, (3, 32, 32), 10)), plan_of(config, place))
        for record in records:
            table.layer_added(record)
    return said.getvalue().splitlines()


FIRST = LayerRecord(1, 0.5, None, None, 1.0, 0.4, 0.1, {"filters": 1.0}, 0)


@pytest.mark.parametrize(
    ("place", "device", "words"),
    [
        ("auto", "cpu", "205 MB maps in memory;"),
        ("device", "2 workers, cuda:0", "205 MB maps on the GPU;"),
        ("host", "cuda:0", "205 MB maps on the host, streamed;"),
        ("file", "cpu", "205 MB maps in a file, streamed;"),
    ],
)
def test_the_plan_says_where_maps_live(place, device, words):
    lines = lines_of(NetworkConfig(filters=50), device=device, place=place)
    assert any(line.endswith(words) for line in lines)


@pytest.mark.parametrize(("layers", "stops", "helps"), [(20, True, True), (20, False, False), (2, True, False)])
def test_an_early_end_suggests_more_layers(layers, stops, helps):
    """Only a run that stopped by its training accuracy, with fewer layers than allowed, suggests it."""
    images, labels = torch.rand(12, 1, 8, 8).numpy(), torch.arange(12).numpy() % 3
    config, said = Config("digits", layers=layers, stop_at_zero_error=stops).complete(), io.StringIO()
    with TrainingTable(Console(file=said, width=200), "digits", "cpu") as table:
        trainer = Trainer(config, TrainingData.of(images, labels), ComputeOptions(), Workers())
        table.planned(trainer.network, trainer.plan)
        for _ in range(2):
            table.layer_added(trainer.add_layer())
        assert trainer.history[-1].train_accuracy == 1
        table.finished(trainer.history)
    assert ("no stop_at_zero_error" in said.getvalue()) == helps


def test_the_time_left_ignores_the_first_layer():
    """The first layer has fewer channels and predicts nothing; a resumed run shows the time left at once."""
    slow = [replace(FIRST, layer=number, seconds={"filters": 3.0}) for number in (2, 3, 4)]
    config = NetworkConfig(layers=4)
    *_, first, second, third, last = lines_of(config, FIRST, *slow)
    assert first.rstrip().endswith("1.00")
    assert second.endswith(" 6.0 s") and third.endswith(" 3.0 s") and last.endswith("–")
    assert lines_of(config, slow[1])[-1].endswith(" 3.0 s")


@pytest.mark.parametrize(
    ("head", "validation", "columns"),
    [
        ("lda", 0.5, ["training", "validation", "positive", "seconds"]),
        ("ridge", None, ["training", "seconds"]),
    ],
)
def test_columns_without_figures_are_left_out(head, validation, columns):
    config, record = NetworkConfig(layers=4, head=head), replace(FIRST, validation_accuracy=validation)
    header, line = lines_of(config, record)[-2:]
    assert header.replace("%", "").split() == ["layer", *columns, "time", "left"]
    assert len(line.split()) == 1 + len(columns)


@pytest.mark.parametrize(("depth", "device", "left"), [(1, "cpu", "3.0 s"), (0, "cpu", ""), (1, "cuda:0", "")])
def test_the_time_left_after_a_first_layer_like_all_others(depth, device, left):
    lines = lines_of(NetworkConfig(layers=4, stack_depth=depth), FIRST, device=device)
    assert lines[-1].rstrip().endswith(f"1.00      {left}".rstrip())


def test_the_summary_tells_layers_from_the_readout():
    """Predictions use the readout, so the accuracy of the layers alone is marked."""
    config, said = NetworkConfig(layers=1), io.StringIO()
    record = replace(FIRST, test_accuracy=0.5)
    table = TrainingTable(Console(file=said, width=200), "digits", "cpu")
    table.planned(Network(LayerStack(config, (3, 32, 32), 10)), plan_of(config))
    table.finished(History([record], readout=ReadoutRecord(test_accuracy=0.75)))
    assert "\ntest accuracy, without the readout: 50.00 % at layer 1, the last\n" in said.getvalue()
    table.finished(History([record]))
    assert "\ntest accuracy: 50.00 % at layer 1, the last\n" in said.getvalue()


def test_a_history_is_shown_in_one_line():
    """`rescnet.train` returns one, which an interactive session prints."""
    shown = repr(History([FIRST] * 3, StopReason.DEPTH, ReadoutRecord()))
    assert shown == "History(3 layers and a readout; all layers were added)"
    assert repr(History([FIRST])) == "History(1 layer)"
