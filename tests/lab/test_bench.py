"""What ``lab.bench`` measures, on networks that train in a moment."""

from __future__ import annotations

import importlib
import json
import time

import pytest
import torch

from lab.bench import choose_cases, main, measure_case, smooth_noise
from lab.costs import STAGES
from rescnet import ComputeOptions, Config, preset_names

CPU = torch.device("cpu")


@pytest.fixture
def case():
    return choose_cases(["digits"], CPU, images=40, filters=4)[0]


def test_a_layer_is_measured_by_stage_and_as_a_whole(case):
    result = measure_case(case, ComputeOptions(device="cpu"), layers=3)
    assert len(result["seconds_by_layer"]) == 3
    assert sorted(result["seconds_by_layer"])[1] == result["seconds"]
    assert result["images_per_second"] == pytest.approx(48 / result["seconds"])
    assert set(result["seconds_by_stage"]) == set(result["memory_by_stage"]) == set(STAGES)
    assert sum(result["seconds_by_stage"].values()) < 1.5 * result["seconds"]
    assert max(result["memory_by_stage"].values()) <= result["peak_memory"]
    assert {"dataset", "config", "commit", "command", "device", "versions", "seed"} <= set(result)


def test_no_layer_is_begun_after_the_deadline(case):
    with pytest.raises(ValueError, match="allow more seconds"):
        measure_case(case, ComputeOptions(device="cpu"), deadline=time.monotonic() - 1)


def test_every_preset_in_full_size_on_a_gpu_and_some_small_on_a_cpu():
    full = {case.name: case for case in choose_cases([], torch.device("cuda"))}
    assert set(full) == {"default", *preset_names()}
    assert (full["cifar10"].train, full["cifar10"].test) == (50_000, 10_000)
    assert (full["cifar100-best"].classes, full["cifar100-best"].shape) == (100, (3, 32, 32))
    assert (full["tiny-imagenet-best"].train, full["tiny-imagenet-best"].shape) == (100_000, (3, 64, 64))
    assert all(
        full[name].config.to_dict() == Config(name).complete().to_dict() for name in full if name.endswith("-best")
    )
    small = choose_cases([], CPU)
    assert all(case.train <= 1_500 and case.config.filters <= 32 for case in small)
    asked = choose_cases(["mnist"], CPU, images=50, filters=5)[0]
    assert (asked.train, asked.test, asked.config.filters) == (50, 10, 5)
    with pytest.raises(ValueError, match="Did you mean 'cifar10'"):
        choose_cases(["cifar-10"], CPU)


@pytest.mark.slow
def test_every_preset_can_be_measured():
    for case in choose_cases(["default", *preset_names()], CPU, images=24, filters=4):
        result = measure_case(case, ComputeOptions(device="cpu"), layers=1)
        assert (result["readout_seconds"] is not None) == case.config.has_kernel, case.name


def test_the_readout_is_fitted_to_the_layers_measured():
    (case,) = choose_cases(["mnist-best"], CPU, images=30, filters=4)
    result = measure_case(case, ComputeOptions(device="cpu"), layers=1)
    assert result["layers"] == 3 < case.config.layers == result["config"]["layers"]
    assert min(result["readout_seconds"], result["prediction_seconds_per_image"]) > 0
    (heads_alone,) = choose_cases(["mnist"], CPU, images=30, filters=4)
    assert measure_case(heads_alone, ComputeOptions(device="cpu"), layers=1)["readout_seconds"] is None


@pytest.mark.slow
def test_the_default_network_is_measured_whole():
    (case,) = choose_cases(["default"], CPU)
    assert (case.train, case.test, case.shape) == (500, 100, (3, 32, 32))
    assert case.config == Config(augment="flip").complete((3, 32, 32), 10, 500)
    (case,) = choose_cases(["default"], CPU, images=20, filters=4)
    result = measure_case(case, ComputeOptions(device="cpu"))
    assert len(result["seconds_by_layer"]) == result["layers"] == 3


def test_nothing_is_predicted_after_the_deadline(case, monkeypatch):
    clock = iter(range(100))  # read before each layer
    monkeypatch.setattr(importlib.import_module("rescnet.training.run"), "monotonic", lambda: next(clock))
    result = measure_case(case, ComputeOptions(device="cpu"), deadline=3)
    assert (result["layers"], len(result["seconds_by_layer"])) == (3, 1)
    assert result["prediction_seconds_per_image"] is None


def test_noise_is_smooth_and_the_same_for_a_seed():
    images = smooth_noise(50, (3, 16, 16), CPU).float()
    assert torch.equal(images, smooth_noise(50, (3, 16, 16), CPU).float())
    left, right = images[..., :-1].flatten(), images[..., 1:].flatten()
    assert torch.corrcoef(torch.stack([left, right]))[0, 1] > 0.7


def test_the_command_writes_json_and_prints_a_table(tmp_path, monkeypatch, capsys):
    out = tmp_path / "bench.json"
    words = ["--preset", "digits", "--images", "40", "--filters", "4", "--layers", "1", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["bench", *words, "--device", "cpu"])
    assert main() == 0
    written, printed = json.loads(out.read_text()), capsys.readouterr().out
    assert [run["name"] for run in written] == ["digits filters=4 exact"]
    assert "convolution" in printed and "images per second" in printed
    assert "prediction with 3 layers" in printed and "readout" not in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", "cifa10"], "Did you mean 'cifar10'"),
        (["--max-memory", "lots"], "got 'lots'"),
        (["--precision", "slow"], "got 'slow'"),
        (["--device", "tpu"], "got 'tpu'"),
        (["--out", "no/x.json"], "path must be in an existing folder"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(words, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench", *words])
    with pytest.raises(SystemExit) as refused:
        main()
    assert refused.value.code == 2 and message in capsys.readouterr().err
