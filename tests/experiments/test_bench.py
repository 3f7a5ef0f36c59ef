"""What ``rescnet bench`` measures, on networks that train in a moment."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from rescnet import ComputeOptions
from rescnet.cli import app
from rescnet.experiments.bench import (
    NothingMeasuredError,
    choose_cases,
    compare_heads,
    contestants,
    known_cases,
    make_rows,
    measure_case,
    smooth_noise,
)
from rescnet.experiments.costs import STAGES, measure_ceilings

CPU = torch.device("cpu")
CEILINGS = {"float32": 1e11, "copy": 1e10}


@pytest.fixture
def case():
    return replace(known_cases()["digits"], train=40, test=8, changes={"filters": 4})


def test_stages_of_the_formulas_are_those_of_a_run_and_rates_are_their_quotients(case):
    result = measure_case(case, ComputeOptions(device="cpu"), CEILINGS, layers=3, warm_up=1)
    assert set(result["seconds_by_stage"]) == set(STAGES) == set(result["stages"])
    assert len(result["seconds_by_layer"]) == 3
    assert sorted(result["seconds_by_layer"])[1] == result["seconds"]
    for stage in result["stages"].values():
        assert stage["tflops"] * stage["seconds"] * 1e12 == pytest.approx(stage["operations"])
        assert stage["least_seconds"] == max(stage["operations"] / 1e11, stage["bytes"] / 1e10)
    assert {"dataset", "config", "commit", "command", "device", "versions", "seed"} <= set(result)


def test_no_layer_is_begun_after_the_deadline(case):
    steps = []
    with pytest.raises(NothingMeasuredError, match="allow more seconds"):
        measure_case(case, ComputeOptions(device="cpu"), CEILINGS, deadline=time.monotonic() - 1, progress=steps.append)
    assert steps == []


def test_ceilings_are_what_a_product_and_a_copy_take():
    found = measure_ceilings(CPU, side=64, copied=2**16)
    assert set(found) == {"float32", "copy"}
    assert 1e7 < found["float32"] < 1e14 and 1e7 < found["copy"] < 1e13


def test_full_size_on_a_gpu_and_small_on_a_cpu():
    full = {case.name: case for case in choose_cases([], torch.device("cuda"))}
    assert (full["cifar10"].train, full["cifar10"].test) == (50_000, 10_000)
    assert (full["tiny-imagenet"].train, full["tiny-imagenet"].shape) == (100_000, (3, 64, 64))
    assert full["cifar10-adaptive"].config().features((32, 32)) == 21 * 1225
    small = choose_cases([], CPU)
    assert all(case.train <= 1_500 and case.config().filters <= 20 for case in small)
    asked = choose_cases(["mnist"], CPU, images=50, filters=5)[0]
    assert (asked.train, asked.test, asked.config().filters) == (50, 10, 5)
    with pytest.raises(ValueError, match="Did you mean 'cifar10'"):
        choose_cases(["cifar-10"], CPU)


def test_noise_is_smooth_and_the_same_for_a_seed():
    images = smooth_noise(50, (3, 16, 16), CPU).float()
    assert torch.equal(images, smooth_noise(50, (3, 16, 16), CPU).float())
    left, right = images[..., :-1].flatten(), images[..., 1:].flatten()
    assert torch.corrcoef(torch.stack([left, right]))[0, 1] > 0.7


def test_heads_agree_with_those_they_are_compared_with():
    rows = make_rows(600, 40, 4, held=300)
    predicted = {name: fit()(rows.held_features) for name, (_, fit) in contestants(rows).items()}
    multi = predicted["rescnet multi-class LDA"]
    assert (multi == predicted["scikit-learn LDA, solver eigen"]).mean() > 0.97
    assert (multi == predicted["scikit-learn LDA, solver lsqr"]).mean() > 0.97
    assert (predicted["rescnet ridge"] == predicted["scikit-learn RidgeClassifier"]).mean() > 0.995


def test_ratios_are_to_our_head_of_the_same_kind():
    found = {head["name"]: head for head in compare_heads(200, 20, 3, held=50)}
    assert found["rescnet ridge"]["ratio"] == found["rescnet one-vs-rest LDA"]["ratio"] == 1
    theirs = found["scikit-learn RidgeClassifier"]
    assert theirs["ratio"] == pytest.approx(theirs["seconds"] / found["rescnet ridge"]["seconds"])
    assert list(compare_heads(200, 20, 3, held=50, deadline=time.monotonic() - 1)) == []


def test_the_command_writes_json_and_prints_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr("rescnet.experiments.costs.measure_ceilings", lambda device: CEILINGS)
    out = tmp_path / "bench.json"
    words = ["bench", "--preset", "digits", "--images", "40", "--filters", "4", "--layers", "1", "--out", str(out)]
    result = CliRunner().invoke(app, [*words, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    written = json.loads(out.read_text())
    assert [run["name"] for run in written] == ["digits filters=4 exact"]
    assert "convolution" in result.output and "at the ceilings" in result.output
    heads = tmp_path / "heads.json"
    result = CliRunner().invoke(app, ["bench", "--heads", "--rows", "200", "--features", "20", "--out", str(heads)])
    assert result.exit_code == 0 and len(json.loads(heads.read_text())["heads"]) == 6


def test_bad_input_is_refused_in_one_sentence(tmp_path):
    for words in (["--preset", "cifa10"], ["--memory", "lots"], ["--precision", "slow"], ["--device", "tpu"]):
        assert CliRunner().invoke(app, ["bench", *words]).exit_code == 2
    assert CliRunner().invoke(app, ["bench", "--out", str(tmp_path / "no" / "x.json")]).exit_code == 2
