"""Several workers learn the network one worker learns; one that dies ends the others."""

from __future__ import annotations

import json
import os
import runpy
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from rescnet.training.workers import Workers, join_workers, own_device

SCRIPT = Path(__file__).with_name("worker_runs.py")
SMALL = {
    "filters": 6,
    "layers": 2,
    "block_sizes": [6],
    "block_stride": 2,
    "pyramid": [2, 1],
    "stop_at_zero_error": False,
}
CASES = [
    {"pca_signs": "drawn", "stacked_lda_signs": "both"},
    {"compute": {"dtype": "float64"}, "head": "ridge", "learning_rate": 0.3},
    {"compute": {"dtype": "float64", "maps": "file"}, "scaling": "channel", "ridge": 0.5},
    {"augment": "flip + shift 1 + rotate 10", "copies": 2, "test_views": "flip"},
    {
        "compute": {"dtype": "float64"}, "head": "ridge", "bank": "patches + lda", "layers": 3,
        "stack_depth": 2, "grey_stack_every": 2,
    },
    {"compute": {"dtype": "float64"}, "bank": "lda + stacked-lda + pca", "weighted": True},
    # From the second layer on a residual rounded otherwise in half precision may choose another label.
    {"compute": {"precision": "balanced"}, "bank": "pca", "head": "multiclass-lda", "layers": 1},
]  # fmt: skip


def run(*words):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, SCRIPT, *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, timeout=120)


@pytest.mark.slow
def test_three_workers_equal_one_to_rounding_and_in_accuracy_exactly(tmp_path):
    cases = [json.dumps(SMALL | case) for case in CASES]
    done = run(3, tmp_path, *cases)
    assert (done.returncode, done.stdout.strip()) == (0, "[0, 0, 0]"), done.stderr
    alone = runpy.run_path(str(SCRIPT))["one_case"]
    for number, case in enumerate(cases):
        found, wanted = torch.load(tmp_path / f"{number}.pt"), alone(case, Workers())
        double = CASES[number].get("compute", {}).get("dtype") == "float64"
        assert found["accuracies"] == wanted["accuracies"], CASES[number]
        torch.testing.assert_close(found["outputs"], wanted["outputs"], rtol=0, atol=1e-8 if double else 2e-3)
        assert not torch.equal(found["outputs"], wanted["outputs"]) or not double  # sums were added in another order


READOUTS = [
    {"loo_correction": True},
    {"augment": "flip", "readout_size": 40},
    {"kernel_copies": "shift 1", "test_views": "flip"},
    {"metric": True, "readout_size": 60},
    {"metric": True, "steps": True},
    {"metric": True, "steps": True, "resumed": 3},
    {"steps": True, "augment": "flip", "loo_correction": True},
    {"compute": {"dtype": "float32"}},
]


@pytest.mark.slow
def test_two_workers_fit_the_readout_of_one(tmp_path):
    """Codes are rounded to eight bits, so outputs may differ by a little more than rounding."""
    few = {"filters": 4, "readout": "kernel", "compute": {"dtype": "float64"}}
    cases = [json.dumps(SMALL | few | case) for case in READOUTS]
    done = run(2, tmp_path, *cases)
    assert (done.returncode, done.stdout.strip()) == (0, "[0, 0]"), done.stderr
    alone = runpy.run_path(str(SCRIPT))["one_case"]
    for number, case in enumerate(cases):
        found, wanted = torch.load(tmp_path / f"{number}.pt"), alone(case, Workers())
        assert found["accuracies"] == wanted["accuracies"], READOUTS[number]
        assert wanted["accuracies"][-1][2] == ("steps" in READOUTS[number])
        sure = wanted["outputs"].topk(2, 1).values.diff(dim=1)[:, 0].abs() > 0.005
        assert torch.equal(found["outputs"].argmax(1)[sure], wanted["outputs"].argmax(1)[sure])
        assert float(sure.double().mean()) > 0.95
        torch.testing.assert_close(found["outputs"], wanted["outputs"], rtol=0, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [("--die", -9), ("--fail", 1)])
def test_a_worker_that_ends_early_ends_the_others(how, code, tmp_path):
    start = time.monotonic()
    done = run(3, tmp_path, how, 1, json.dumps(SMALL | {"layers": 1000}))
    assert json.loads(done.stdout) == [1, code, 1]
    sentence = (
        "WorkerLostError: another worker has ended or does not answer. See its message, and continue with --resume"
    )
    assert done.stderr.count(sentence) == 2, done.stderr
    assert time.monotonic() - start < 30
    assert list(tmp_path.iterdir()) == []


def test_shares_are_even_and_whole():
    for total in (3, 10, 11, 60_000):
        shares = [Workers(rank, 3).shard(total) for rank in range(3)]
        assert [share.start for share in shares] == [0, *(share.stop for share in shares[:-1])]
        assert shares[-1].stop == total
        assert max(s.stop - s.start for s in shares) - min(s.stop - s.start for s in shares) <= 1


def test_a_worker_without_images_is_refused():
    with pytest.raises(ValueError, match=r"test images must be at least 3, one per worker, got 2\. Start fewer"):
        Workers(0, 3).shard(2, "test images")


def test_each_worker_takes_its_own_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert own_device("auto", 1) == torch.device("cuda:1")
    assert own_device("cpu", 1) == torch.device("cpu")
    with pytest.raises(ValueError, match="workers must be at most 2 on a machine with 2 GPUs, got 3 or more"):
        own_device("cuda", 2)
    with pytest.raises(ValueError, match="device must be 'cuda' with 2 workers on one machine, got 'cuda:1'"):
        own_device("cuda:1", 0, 2)
    assert own_device("cuda:1", 0, 1) == torch.device("cuda:1")


@pytest.fixture
def with_itself(monkeypatch):
    """One worker that exchanges with itself, through gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        environment = {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free.getsockname()[1]}
    for key, value in environment.items():
        monkeypatch.setenv(key, str(value))
    with join_workers("cpu", alone=True) as workers:
        yield workers


def test_a_worker_that_exchanges_with_itself_learns_the_same(with_itself):
    one_case = runpy.run_path(str(SCRIPT))["one_case"]
    case = json.dumps(SMALL)
    found, wanted = one_case(case, with_itself), one_case(case, Workers())
    assert with_itself.exchanged > 0 and found["accuracies"] == wanted["accuracies"]
    assert torch.equal(found["outputs"], wanted["outputs"])


def test_a_worker_that_exchanges_with_itself_fits_the_same_readout(with_itself):
    one_case = runpy.run_path(str(SCRIPT))["one_case"]
    for options in ({"loo_correction": True}, {"steps": True}):
        case = json.dumps(SMALL | {"layers": 1, "filters": 4, "readout": "kernel"} | options)
        found, wanted = one_case(case, with_itself), one_case(case, Workers())
        assert found["accuracies"] == wanted["accuracies"]
        assert torch.equal(found["outputs"], wanted["outputs"])


def test_bytes_are_sent_in_pieces(with_itself, monkeypatch):
    monkeypatch.setattr("rescnet.training.workers.PIECE", 10)
    for data in (b"a run that was read" * 3, bytes(10), b"x"):
        before = with_itself.exchanged
        assert with_itself.broadcast_bytes(data) == data
        assert with_itself.exchanged - before == 8 + len(data)


def test_the_first_worker_of_a_machine_reads_before_the_others(monkeypatch):
    said = []
    monkeypatch.setattr(Workers, "sum_int", lambda self, number: said.append("met") or number)
    for first in (True, False):
        assert Workers(first_here=first).first_alone(lambda: said.append("read") or 5) == 5
    assert said == ["read", "met", "met", "read"]

    def fail():
        raise ValueError("source must be there")

    with pytest.raises(ValueError, match="source must"):
        Workers().first_alone(fail)
    assert said[4:] == ["met"]  # so that the others fail alike
