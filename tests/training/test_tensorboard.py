"""``rescnet train --tensorboard``: TensorBoard reads the history back, also after Ctrl-C."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from typer.testing import CliRunner

from rescnet.cli import app
from rescnet.saving import load_model
from rescnet.training.trainer import Trainer

pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install 'rescnet[tensorboard]'")

SMALL = (
    "--preset paper --filters 6 --block-sizes 4 --block-stride 2 --pyramid 2,1 --bank pca --no-stop-at-zero-error "
    "--device cpu --validation-fraction 0.2"
)
STAGES = {"scaling", "filters", "residual", "convolution", "pooling", "moments", "heads", "update"}


@pytest.fixture
def train(blobs, tmp_path):
    """Train on a file of images with test images; returns the exit code and what was said."""
    images, labels = blobs
    pictures = tmp_path / "gratings.npz"
    np.savez(pictures, x_train=images[:180], y_train=labels[:180], x_test=images[180:], y_test=labels[180:])

    def run(*words):
        command = ["train", str(pictures), *SMALL.split(), "--quiet", *map(str, words)]
        result = CliRunner().invoke(app, command)
        return result.exit_code, result.output

    return run


def read(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def curve(events, tag):
    return {event.step: event.value for event in events.Scalars(tag)}


@pytest.mark.slow
def test_a_readout_is_told_at_the_last_layer(train, tmp_path):
    """Also where it is fitted to layers that were there."""
    code, said = train("--layers", 2, "--out", tmp_path / "m", "--readout", "kernel", "--tensorboard", tmp_path / "log")
    assert code == 0, said
    assert train("--layers", 2, "--out", tmp_path / "later")[0] == 0
    again = ["train", "--resume", tmp_path / "later", "--readout", "kernel", "--tensorboard", tmp_path / "log-later"]
    assert CliRunner().invoke(app, [*map(str, again), "--quiet"]).exit_code == 0
    for model, log in (("m", "log"), ("later", "log-later")):
        record, events = load_model(tmp_path / model).history.readout, read(tmp_path / log)
        for name in ("validation_accuracy", "test_accuracy", "seconds"):
            found = curve(events, f"readout/{name.removesuffix('_accuracy')}")
            assert found == {2: pytest.approx(getattr(record, name))}


def test_tensorboard_reads_the_history(train, tmp_path):
    code, said = train("--layers", 3, "--out", tmp_path / "m", "--tensorboard", tmp_path / "log")
    assert code == 0, said
    events, history = read(tmp_path / "log"), load_model(tmp_path / "m").history
    assert len(history) == 3
    expected = {
        "accuracy/train": lambda record: record.train_accuracy,
        "accuracy/validation": lambda record: record.validation_accuracy,
        "accuracy/test": lambda record: record.test_accuracy,
        "positive_share": lambda record: record.positive_share,
        "learning_rate": lambda record: record.rate,
        "ridge": lambda record: record.ridge,
        "seconds/total": lambda record: record.total_seconds,
        "memory/peak": lambda record: record.peak_memory,
        **{f"seconds/{stage}": lambda record, stage=stage: record.seconds[stage] for stage in STAGES},
    }
    assert set(events.Tags()["scalars"]) == set(expected)
    for tag, value in expected.items():
        assert curve(events, tag) == pytest.approx({record.layer: value(record) for record in history}, rel=1e-6), tag


def test_the_configuration_is_there_to_read(train, tmp_path):
    train("--layers", 1, "--out", tmp_path / "m", "--tensorboard", tmp_path / "log", "--seed", 7)
    text = read(tmp_path / "log").Tensors("configuration/text_summary")[0].tensor_proto.string_val[0].decode()
    for row in ("| layers | 1 |", "| bank | pca |", "| pyramid | [2, 1] |", "| seed | 7 |"):
        assert row in text


def test_accuracies_without_images_are_left_out(blobs, tmp_path):
    from rescnet import NetworkConfig, train
    from rescnet.training.tensorboard import TensorBoardLog

    config = NetworkConfig(layers=1, filters=6, block_sizes=(4,), block_stride=2, pyramid=(2, 1), bank="pca")
    with TensorBoardLog(tmp_path) as log:
        train(*blobs, config, listener=log)
    assert [tag for tag in read(tmp_path).Tags()["scalars"] if "accuracy" in tag] == ["accuracy/train"]


def test_a_second_run_replaces_the_first(train, tmp_path):
    for layers in (3, 2):
        train("--layers", layers, "--out", tmp_path / "m", "--overwrite", "--tensorboard", tmp_path / "log")
    history = load_model(tmp_path / "m").history
    assert curve(read(tmp_path / "log"), "seconds/total") == pytest.approx({r.layer: r.total_seconds for r in history})


def test_layers_are_on_the_disk_at_once_and_ctrl_c_closes_the_file(train, tmp_path, monkeypatch):
    seen, before, add_layer = [], set(threading.enumerate()), Trainer.add_layer

    def interrupted(trainer):
        if trainer.history.records:
            seen.append(sorted(curve(read(tmp_path / "log"), "accuracy/train")))
        if len(trainer.history) == 2:
            assert set(threading.enumerate()) - before  # the writer's thread, gone once it is closed
            raise KeyboardInterrupt
        return add_layer(trainer)

    monkeypatch.setattr(Trainer, "add_layer", interrupted)
    code, said = train("--layers", 9, "--out", tmp_path / "m", "--tensorboard", tmp_path / "log")
    assert code == 130 and "2 layers are finished" in said
    assert seen == [[1], [1, 2]]
    assert not set(threading.enumerate()) - before
    assert sorted(curve(read(tmp_path / "log"), "accuracy/train")) == [1, 2]


def test_a_missing_tensorboard_is_told_before_any_work(train, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, said = train("--out", tmp_path / "m", "--tensorboard", tmp_path / "log")
    assert code == 2
    assert said == "error: tensorboard must be installed. Use: pip install 'rescnet[tensorboard]'\n"
    assert not (tmp_path / "m").exists() and not (tmp_path / "log").exists()


def test_a_file_is_no_place_for_a_log(train, tmp_path):
    (tmp_path / "log").write_text("mine")
    code, said = train("--out", tmp_path / "m", "--tensorboard", tmp_path / "log")
    assert code == 2 and "the TensorBoard log must be a folder, got the file" in said
    assert (tmp_path / "log").read_text() == "mine" and not (tmp_path / "m").exists()


def test_a_resumed_run_keeps_the_layers_before(train, tmp_path):
    assert train("--layers", 2, "--out", tmp_path / "m", "--tensorboard", tmp_path / "log")[0] == 0
    more = ["train", "--resume", tmp_path / "m", "--layers", 4, "--tensorboard", tmp_path / "log", "--quiet"]
    assert CliRunner().invoke(app, list(map(str, more))).exit_code == 0
    wanted = {record.layer: record.train_accuracy for record in load_model(tmp_path / "m").history}
    assert curve(read(tmp_path / "log"), "accuracy/train") == pytest.approx(wanted)
