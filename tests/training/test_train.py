"""The training loop: one record per layer, a deadline, early ends, and the readout."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from train_network import train_network

from rescnet import Config, NetworkConfig, train
from rescnet.network.history import History, LayerRecord, StopReason
from rescnet.network.inputs import InputWarning
from rescnet.training.listener import Listener
from rescnet.training.run import TrainingRun
from rescnet.training.time_plan import TimePlan
from rescnet.training.trainer import Trainer

SMALL = {
    "filters": 5, "layers": 3, "block_sizes": [6], "block_stride": 2, "pyramid": (2, 1), "ridge": 0.3, "bank": "pca",
    "stop_at_zero_error": False,
}  # fmt: skip


def config_of(**options):
    return NetworkConfig(**(SMALL | options))


@pytest.fixture(scope="module")
def few(blobs):
    images, labels = blobs
    return images[:60], labels[:60]


class Events(Listener):
    """A listener that keeps a list of events."""

    def __init__(self):
        self.seen = []

    def chosen(self, choice):
        self.seen.append("chosen")

    def planned(self, network, plan):
        self.seen.append("planned")

    def layer_added(self, record):
        self.seen.append(record.layer)

    def readout_step(self, steps, residual, solution):
        self.seen.append("step")

    def readout_fitted(self, record):
        self.seen.append("readout")


def test_a_run_yields_one_record_per_layer(few):
    run = TrainingRun(*few, config_of())
    records = []
    for record in run:
        assert isinstance(record, LayerRecord)
        records.append(record)
        assert len(run.network.layers) == len(run.history) == record.layer == len(records)
        assert run.history.stopped is None
    assert records == run.history.records
    assert len(records) == 3
    assert run.history.stopped is StopReason.DEPTH
    network, _ = train_network(*few, config_of())
    assert torch.equal(run.network.outputs(few[0]), network.outputs(few[0]))


def test_options_change_the_default_network(few):
    found = train_network(*few, Config(layers=2, filters=6, augment=""))[0].config
    default = Config().complete(tuple(few[0].shape[1:]), int(few[1].max()) + 1, 60)
    assert found == replace(default, layers=2, filters=6)
    with pytest.raises(ValueError, match=r"got 'layer' in Config\. Did you mean 'layers'"):
        Config(layer=2)
    with pytest.raises(TypeError, match=r"train has no parameter 'layers'\. Write config=rescnet\.Config\(layers="):
        train(*few, layers=2)
    with pytest.raises(ValueError, match=r"^quality must be left out with a NetworkConfig"):
        train(*few, config_of(), quality="best")


def test_nothing_is_learned_before_the_iteration(few, monkeypatch):
    monkeypatch.setattr(Trainer, "add_layer", lambda self: pytest.fail("a layer was learned"))
    run = TrainingRun(*few, config_of())
    assert len(run.network.layers) == len(run.history) == 0
    assert run.plan.chunk >= 1


@pytest.mark.parametrize("readout", ["heads", "kernel"])
def test_listeners_receive_the_plan_all_layers_and_the_readout(readout, few):
    listener = Events()
    network, history = train_network(*few, config_of(readout=readout), listener=listener)
    assert listener.seen == ["chosen", "planned", 1, 2, 3] + ["readout"] * (readout == "kernel")
    assert (network.readout is None) == (history.readout is None) == (readout == "heads")


def test_a_deadline_stops_the_run_without_a_readout(few):
    listener = Events()
    run = TrainingRun(*few, config_of(readout="kernel"), listener=listener, deadline=monotonic())
    assert list(run) == []
    assert run.history.stopped is StopReason.DEADLINE
    assert not run.history.stopped.is_complete
    assert run.network.readout is None and run.history.readout is None
    assert listener.seen == ["planned"]


def test_a_deadline_is_checked_before_each_layer(few, monkeypatch):
    clock = iter([0.0, 10.0, 20.0, 30.0])
    monkeypatch.setattr("rescnet.training.run.monotonic", lambda: next(clock))
    run = TrainingRun(*few, config_of(layers=9), deadline=20.0)
    assert [record.layer for record in run] == [1, 2]
    assert run.history.stopped is StopReason.DEADLINE


def test_a_time_limit_leaves_time_for_the_readout(few, monkeypatch):
    """A layer takes 10 s here, and so does the pass of its copy for the readout; then that is fitted in 4 s."""

    def planned(config, *_):
        return TimePlan(10.0, 10.0 * (config.rows_per_image - 1), 4.0)

    monkeypatch.setattr("rescnet.training.run.TimePlan.of", planned)
    for copies, limit, layers in (("", 35, 3), ("", 33, 2), ("shift 1", 35, 1), ("shift 1", 45, 2), ("shift 1", 43, 1)):
        clock = iter(range(0, 1000, 10))
        monkeypatch.setattr("rescnet.training.run.monotonic", lambda clock=clock: next(clock))
        config = config_of(layers=9, readout="kernel", kernel_copies=copies)
        run = TrainingRun(*few, config, time_limit=limit)
        assert len(list(run)) == layers and run.history.readout is not None
        assert run.history.stopped is StopReason.TIME and run.history.stopped.is_complete


def test_a_complete_run_is_not_stopped_by_its_deadline(few):
    """All layers are there when the deadline has passed: the readout is fitted."""
    start = train_network(*few, config_of())
    run = TrainingRun(*few, config_of(readout="kernel"), start=start, deadline=monotonic())
    assert list(run) == []
    assert run.history.stopped is StopReason.DEPTH
    assert run.network.readout is not None


def test_the_caller_can_stop_a_run_and_continue_it(few):
    run = TrainingRun(*few, config_of())
    for record in run:
        if record.layer == 2:
            break
    assert len(run.network.layers) == len(run.history) == 2
    assert run.history.stopped is None
    assert run.network.predict_indices(few[0]).shape == (60,)
    continued, history = train_network(*few, config_of(), start=(run.network, run.history))
    whole, _ = train_network(*few, config_of())
    assert torch.equal(continued.outputs(few[0]), whole.outputs(few[0]))
    assert history.stopped is StopReason.DEPTH


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": np.zeros((60, 12, 12))}, "images must have shape"),
        ({"labels": np.zeros(59, int)}, r"labels must have shape \(60,\)"),
        ({"config": config_of(patience=2)}, "patience must be 0 without validation images, got 2"),
        ({"config": config_of(filter_size=13)}, "filter_size must be at most 12"),
        ({"validation": (np.zeros((2, 3, 9, 9)), [0, 1])}, r"validation images must have shape \(3, 12, 12\)"),
    ],
    ids=["images", "labels", "patience", "filter_size", "validation"],
)
def test_inputs_are_checked_in_the_constructor(changes, message, few):
    listener, given = Events(), {"images": few[0], "labels": few[1], "config": config_of()} | changes
    with pytest.raises(ValueError, match=message):
        TrainingRun(**given, listener=listener)
    assert listener.seen == []


def test_a_network_is_continued_only_with_the_options_its_layers_share(few):
    start = train_network(*few, config_of(layers=1))
    for change in ({"stack_depth": 1}, {"filter_size": 2}, {"rectifier": "both"}):
        (name,) = change
        with pytest.raises(ValueError, match=rf"{name} must stay .*, got .*\. All layers share it"):
            TrainingRun(*few, config_of(**change), start=start)


def test_a_network_is_continued_with_its_own_history_and_not_made_shorter(few):
    network, history = train_network(*few, config_of())
    with pytest.raises(ValueError, match="layers must be at least the 3 of the network to continue, got 2"):
        train_network(*few, config_of(layers=2), start=(network, history))
    with pytest.raises(ValueError, match="history must have 3 records, one per layer of the network, got 0"):
        TrainingRun(*few, config_of(layers=4), start=(network, History()))


def test_images_of_weight_zero_have_no_part_in_the_default_network(few):
    images, labels = few
    weights = np.r_[np.ones(40), np.zeros(20)]
    config = Config(layers=1, filters=5, augment="")
    weighted, alone = train(images, labels, config, weights=weights), train(images[:40], labels[:40], config)
    assert weighted.network.config == alone.network.config


def test_equal_images_are_reported(few):
    images, labels = few
    with pytest.warns(InputWarning, match="images should differ, got 60 equal ones"):
        train(np.zeros_like(images), labels, config_of(layers=1))


@pytest.mark.parametrize("wrap", [lambda data: data, DataLoader], ids=["Dataset", "DataLoader"])
def test_data_sets_of_pytorch_are_named(few, wrap):
    data = wrap(TensorDataset(*map(torch.as_tensor, few)))
    with pytest.raises(ValueError, match=r"^images must be an array or a tensor, got a .* of PyTorch\."):
        train(data)
    with pytest.raises(ValueError, match="of PyTorch"):
        train_network(*few, config_of(layers=1))[0].predict_indices(data)
