from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rescnet import ComputeOptions, NetworkConfig, train
from rescnet.training.memory import PeakMemory, memory_budget, parse_bytes, plan_memory, show_bytes
from rescnet.workspace import LARGEST_WORKSPACE

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("text", "expected"), [("500MB", 500 * 10**6), ("16 GB", 16 * 10**9), ("2GiB", 2**31), ("1.5k", 1500), ("12", 12)]
)
def test_amounts_are_read(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "much", "-3GB", "0", "3 XB", "1e3"])
def test_unreadable_amounts_are_refused(text):
    with pytest.raises(ValueError, match="write it as 500MB"):
        parse_bytes(text)


def test_auto_is_a_share_of_the_machine():
    assert 10**8 < memory_budget("auto", CPU) < 10**13


def test_show_bytes():
    assert [show_bytes(n) for n in (12, 1500, 2_870_000_000)] == ["12 B", "1.5 kB", "2.87 GB"]


def plan(budget, n=20_000, **options):
    config = NetworkConfig(filters=20, block_size=8, block_stride=4, **options)
    return plan_memory(config, (3, 32, 32), 10, n, 1000, 4, False, parse_bytes(budget), CPU)


def test_features_are_kept_only_where_they_fit():
    roomy, tight = plan("8GB"), plan("2.1GB")
    assert roomy.keep_features
    assert not tight.keep_features
    assert tight.features_bytes == 0
    for found, budget in ((roomy, 8e9), (tight, 2.1e9)):
        assert found.total_bytes <= budget
        assert found.chunk >= 1


def test_a_smaller_budget_means_smaller_chunks():
    sizes = [plan(budget).chunk for budget in ("8GB", "2GB", "1.98GB")]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


def test_a_budget_too_small_says_what_is_needed():
    with pytest.raises(ValueError, match=r"memory of 1 GB is too little .* needs 1\.9\d GB"):
        plan("1GB")


def test_a_chunked_run_equals_the_whole_run(blobs, monkeypatch):
    images, labels = blobs
    config = NetworkConfig(filters=6, layers=3, block_size=6, block_stride=2, pyramid=(2, 1), stop_at_zero_error=False)
    outputs = []
    for workspace in (2**30, 2**18):
        monkeypatch.setitem(LARGEST_WORKSPACE, "cpu", workspace)
        network, _ = train(images, labels, config, compute=ComputeOptions(dtype="float64"))
        outputs.append(network.outputs(images))
    np.testing.assert_allclose(outputs[0].numpy(), outputs[1].numpy(), atol=1e-8)


def test_features_computed_twice_give_the_same_bits(blobs, monkeypatch):
    """Recomputed features are those that were summed, so nothing but memory changes."""
    from dataclasses import replace

    from rescnet.training import trainer as module

    images, labels = blobs
    config = NetworkConfig(filters=6, layers=3, block_size=6, block_stride=2, pyramid=(2, 1), stop_at_zero_error=False)
    kept, _ = train(images, labels, config)
    original = module.plan_memory
    monkeypatch.setattr(module, "plan_memory", lambda *a: replace(original(*a), keep_features=False, features_bytes=0))
    twice, _ = train(images, labels, config)
    assert torch.equal(kept.outputs(images), twice.outputs(images))


def test_peak_memory_sees_an_allocation():
    peak = PeakMemory(CPU)
    peak.reset()
    before = peak.bytes()
    block = torch.ones(40 * 2**20)  # 160 MB
    assert peak.bytes() - before > 120 * 2**20
    del block


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not tell a process's peak")
@pytest.mark.parametrize(("budget", "classes"), [("170MB", 5), ("400MB", 5), ("330MB", 1500)])
def test_peak_memory_stays_within_the_budget(budget, classes):
    """A process of its own: 1,500 images of 24×24, maps of 41 MB, a Gram matrix of 7 MB, a block grid of 190 MB."""
    script = f"""
import numpy as np, torch
from rescnet import ComputeOptions, NetworkConfig, train
from rescnet.training.memory import PeakMemory
torch.set_num_threads(2)
rng = np.random.default_rng(0)
small = rng.integers(0, 256, (60, 3, 24, 24)).astype(np.uint8)
config = NetworkConfig(filters=12, layers=2, block_size=12, block_stride=1, pyramid=(4, 2, 1), stop_at_zero_error=False)
train(small, np.arange(60) % 5, config)  # what libraries take once, at first use
images, labels = rng.integers(0, 256, (1500, 3, 24, 24)).astype(np.uint8), np.arange(1500) % {classes}
peak = PeakMemory(torch.device("cpu"))
import re, pathlib
before = int(re.search(r"VmRSS:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
_, history = train(images, labels, config, compute=ComputeOptions(memory="{budget}"))
print(max(record.peak_memory for record in history) - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) <= parse_bytes(budget)
