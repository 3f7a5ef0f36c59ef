"""What ``rescnet bench`` measures, on networks that train in a moment."""

from __future__ import annotations

import json
import time

import pytest
import torch
from typer.testing import CliRunner

from experiments.costs import STAGES
from rescnet import ComputeOptions
from rescnet.cli import app
from rescnet.experiments.bench import choose_cases, measure_case, smooth_noise

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
    steps = []
    with pytest.raises(ValueError, match="allow more seconds"):
        measure_case(case, ComputeOptions(device="cpu"), deadline=time.monotonic() - 1, progress=steps.append)
    assert steps == []


def test_full_size_on_a_gpu_and_small_on_a_cpu():
    full = {case.name: case for case in choose_cases([], torch.device("cuda"))}
    assert (full["cifar10"].train, full["cifar10"].test) == (50_000, 10_000)
    assert (full["tiny-imagenet"].train, full["tiny-imagenet"].shape) == (100_000, (3, 64, 64))
    small = choose_cases([], CPU)
    assert all(case.train <= 1_500 and case.config.filters <= 20 for case in small)
    asked = choose_cases(["mnist"], CPU, images=50, filters=5)[0]
    assert (asked.train, asked.test, asked.config.filters) == (50, 10, 5)
    with pytest.raises(ValueError, match="Did you mean 'cifar10'"):
        choose_cases(["cifar-10"], CPU)


def test_noise_is_smooth_and_the_same_for_a_seed():
    images = smooth_noise(50, (3, 16, 16), CPU).float()
    assert torch.equal(images, smooth_noise(50, (3, 16, 16), CPU).float())
    left, right = images[..., :-1].flatten(), images[..., 1:].flatten()
    assert torch.corrcoef(torch.stack([left, right]))[0, 1] > 0.7


def test_the_command_writes_json_and_prints_a_table(tmp_path):
    out = tmp_path / "bench.json"
    words = ["bench", "--preset", "digits", "--images", "40", "--filters", "4", "--layers", "1", "--out", str(out)]
    result = CliRunner().invoke(app, [*words, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    written = json.loads(out.read_text())
    assert [run["name"] for run in written] == ["digits filters=4 exact"]
    assert "convolution" in result.output and "images per second" in result.output


def test_bad_input_is_refused_in_one_sentence(tmp_path):
    for words in (["--preset", "cifa10"], ["--memory", "lots"], ["--precision", "slow"], ["--device", "tpu"]):
        assert CliRunner().invoke(app, ["bench", *words]).exit_code == 2
    assert CliRunner().invoke(app, ["bench", "--out", str(tmp_path / "no" / "x.json")]).exit_code == 2
