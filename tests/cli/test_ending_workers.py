"""Messages of several ranks that end: rank 0 prints a common error once, and a lost rank is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rescnet import __main__ as command

pytestmark = [pytest.mark.alone, pytest.mark.slow]

LONG = ["--layers", "5000", "--quiet"]
SILENT = "has died or is suspended, or its machine cannot be reached. Continue with --resume and any number of workers."


@pytest.fixture(scope="module")
def ended(small, pictures, tmp_path_factory):
    """Run all cases at once; return exit codes, output and torchrun messages by case."""
    folder = tmp_path_factory.mktemp("ended")
    train = ["train", str(pictures), *small]
    cases = [
        {"words": ["train", "--filter", "3"]},
        {"words": ["train", "nowhere"]},
        {"words": [*train, *LONG], "signal": "SIGINT", "to": 1},
        {"words": [*train, *LONG], "signal": "SIGKILL", "to": 0, "agent": False},
        {"words": ["train", "--resume", "nowhere"]},
        {"words": [*train, *LONG], "signal": "SIGSTOP", "to": 1},
    ]
    script = Path(__file__).with_name("worker_commands.py")
    words = [sys.executable, script, folder, *map(json.dumps, cases)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)

    def case(number):
        said = [(folder / f"{number}.{rank}.txt").read_text() for rank in (0, 1)]
        files = [folder / f"{number}.{rank}.json" for rank in (0, 1)]
        left = [json.loads(file.read_text())["message"]["message"] if file.exists() else "" for file in files]
        return codes[number], said, left

    return case


def test_rank0_reports_a_wrong_flag(ended):
    codes, said, left = ended(0)
    assert codes == [2, 2]
    assert "No such option: --filter" in said[0] and said[1] == ""
    assert "No such option: --filter" in left[0]


def test_rank0_reports_a_common_error(ended):
    codes, said, left = ended(1)
    assert codes == [2, 2]
    assert said[0].startswith("error: source must be an image folder") and said[0].count("\n") == 1
    assert said[1] == ""
    assert left[0].startswith("source must be an image folder")


def test_ctrl_c_of_one_rank_ends_all(ended):
    codes, said, left = ended(2)
    assert codes == [130, 130]
    assert said[0].startswith("worker 1 was stopped by the user: ") and said[0].count("\n") == 1
    assert "finished and usable, in" in said[0]
    assert said[1] == ""
    assert left == [said[0].strip(), ""]


def test_loss_of_rank0_is_one_sentence(ended):
    codes, said, left = ended(3)
    assert codes == [-9, 1]
    assert said == ["", f"error: worker 1: the machine failed: worker 0 {SILENT}\n"]
    assert left[1] == f"worker 1: the machine failed: worker 0 {SILENT}"


def test_rank0_reports_its_own_error(ended):
    codes, said, _ = ended(4)
    assert codes == [2, 1]
    assert said == ["error: there is no model nowhere. Check the path.\n", ""]


def test_a_suspended_rank_is_named(ended):
    codes, said, left = ended(5)
    assert codes == [1, -9]  # it used to wait forever for the exchange with the suspended one
    stopped, error = said[0].splitlines()
    assert stopped.startswith("stopped by an error: ") and "finished and usable" in stopped
    assert error == f"error: the machine failed: worker 1 {SILENT}"
    assert said[1] == ""
    assert left[0] == f"the machine failed: worker 1 {SILENT}"


@pytest.mark.parametrize(("workers", "level"), [("2", "ERROR"), ("1", None)])
def test_pytorch_logs_no_stack_of_a_lost_rank(workers, level, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", workers)
    monkeypatch.setenv("TORCH_CPP_LOG_LEVEL", "")
    monkeypatch.delenv("TORCH_CPP_LOG_LEVEL")
    monkeypatch.setattr(sys, "argv", ["rescnet", "--version"])
    with pytest.raises(SystemExit):
        command.main()
    assert os.environ.get("TORCH_CPP_LOG_LEVEL") == level
