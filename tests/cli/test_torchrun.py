"""``torchrun -m rescnet train``: rank 0 writes, another number of ranks resumes, and no rank outlives another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from rescnet.saving import ModelFolder, load_model

TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "rescnet"]


def start(*words):
    """Start two workers."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, *TORCHRUN, *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, process_group=0, **pipes)


@pytest.mark.slow
def test_two_workers_and_then_one(small, rescnet, pictures, tmp_path):
    place, plain = tmp_path / "two", tmp_path / "one"
    with start("train", pictures, *small, "--out", place) as run:
        stdout, stderr = run.communicate(timeout=120)
    assert run.returncode == 0, stderr
    assert stdout.count("digits: 10 classes, images 8×8×1, on 2 workers, cpu") == 1
    assert stdout.count("3 layers in") == 1
    assert ModelFolder.open(place).about["workers"] == 2
    assert rescnet("train", "--resume", place, "--layers", 5).exit_code == 0
    assert rescnet("train", pictures, *small, "--layers", 5, "--out", plain).exit_code == 0
    found, wanted = load_model(place), load_model(plain)
    images = torch.randint(0, 256, (20, 1, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    torch.testing.assert_close(found.network.outputs(images), wanted.network.outputs(images), rtol=0, atol=5e-3)
    assert [r.test_accuracy for r in found.history] == [r.test_accuracy for r in wanted.history]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill one worker", "Ctrl-C"])
def test_no_worker_outlives_another(how, small, pictures, tmp_path):
    with start("train", pictures, *small, "--layers", 5000, "--out", tmp_path / "model") as run:
        while run.poll() is None and len(list(tmp_path.glob("model/layers/*.safetensors"))) < 2:
            time.sleep(0.05)
        workers = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        if how == "Ctrl-C":
            os.killpg(run.pid, signal.SIGINT)
        else:
            os.kill(int(workers[1]), signal.SIGKILL)
        _, stderr = run.communicate(timeout=60)
    assert run.returncode != 0
    assert len(workers) == 2 and not any(Path("/proc", worker).exists() for worker in workers)
    assert load_model(tmp_path / "model").network.layers
    assert ("interrupted: " in stderr) == (how == "Ctrl-C")
