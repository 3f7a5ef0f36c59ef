"""``torchrun -m rescnet train``: rank 0 writes, and a run is resumed with another number of ranks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from rescnet.saving import ModelFolder, load_model


@pytest.mark.slow
def test_two_workers_and_then_one(small, rescnet, pictures, tmp_path):
    place, plain = tmp_path / "two", tmp_path / "one"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, "--standalone", "-m", "rescnet"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = list(map(str, [*torchrun, "train", pictures, *small, "--out", place]))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("digits: 10 classes, images 8×8×1, on 2 workers, cpu") == 1
    assert done.stdout.count("3 layers in") == 1
    assert ModelFolder.open(place).about["workers"] == 2
    assert rescnet("train", "--resume", place, "--layers", 5).exit_code == 0
    assert rescnet("train", pictures, *small, "--layers", 5, "--out", plain).exit_code == 0
    found, wanted = load_model(place), load_model(plain)
    images = torch.randint(0, 256, (20, 1, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    torch.testing.assert_close(found.network.outputs(images), wanted.network.outputs(images), rtol=0, atol=5e-3)
    assert [r.test_accuracy for r in found.history] == [r.test_accuracy for r in wanted.history]
