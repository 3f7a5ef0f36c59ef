"""Several ranks that end: one sentence about an error, no rank waits forever, and finished layers stay usable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rescnet import __main__ as command
from rescnet.network.history import StopReason
from rescnet.saving import load_model

pytestmark = [pytest.mark.alone, pytest.mark.slow]

LONG = ["--layers", "5000", "--quiet"]
LOST = "the machine failed: another worker has ended or does not answer. See its message, and continue with --resume"


@pytest.fixture(scope="module")
def ended(small, pictures, tmp_path_factory):
    """Run all cases at once; return exit codes, outputs and the folder of the model by case."""
    folder = tmp_path_factory.mktemp("ended")
    train = ["train", str(pictures), *small]
    cases = [
        {"words": ["train", "--filter", "3"], "torchrun": True},
        {"words": ["train", "nowhere"], "torchrun": True},
        {"words": ["train", "--resume", "nowhere"], "torchrun": True},
        {"words": [*train, *LONG], "signal": "SIGINT", "to": [0, 1]},
        {"words": [*train, *LONG], "signal": "SIGINT", "to": [1]},
        {"words": [*train, *LONG], "signal": "SIGKILL", "to": [0]},
        {"words": [*train, *LONG], "signal": "SIGSTOP", "to": [1]},
    ]
    script = Path(__file__).with_name("worker_commands.py")
    words = [sys.executable, script, folder, *map(json.dumps, cases)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)

    def case(number):
        return (
            codes[number],
            [(folder / f"{number}.{rank}.txt").read_text() for rank in (0, 1)],
            folder / f"run{number}",
        )

    return case


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (0, "No such option: --filter"),
        (1, "error: source must be an image folder"),
        (2, "error: there is no model nowhere. Check the path.\n"),
    ],
)
def test_a_common_error_is_printed_once(ended, number, message):
    codes, said, _ = ended(number)
    assert codes == [2, -15]
    assert message in said[0] and said[1] == ""
    assert number == 0 or said[0].count("\n") == 1


def test_ctrl_c_ends_all_ranks(ended):
    codes, said, place = ended(3)
    assert codes == [130, 130]
    assert said[0].startswith("interrupted: ") and said[0].count("\n") == 1
    assert "finished and usable, in" in said[0] and said[1] == ""
    assert load_model(place).history.stopped is StopReason.INTERRUPTED


def test_ctrl_c_of_one_rank_ends_the_other(ended):
    codes, said, place = ended(4)
    assert codes == [1, 130]
    stopped, error = said[0].splitlines()
    assert stopped.startswith("stopped by an error: ") and "finished and usable" in stopped
    assert error.startswith(f"error: {LOST}")
    assert said[1] == ""
    assert load_model(place).network.layers


def test_a_killed_rank_0_ends_the_other(ended):
    codes, said, place = ended(5)
    assert codes == [-9, 1]
    assert said[0] == ""
    assert said[1].startswith(f"error: worker 1: {LOST}") and said[1].count("\n") == 1
    assert load_model(place).network.layers


def test_a_suspended_rank_ends_the_other(ended):
    codes, said, place = ended(6)
    assert codes == [1, -9]  # without a time-out it would wait forever for the exchange with the suspended one
    stopped, error = said[0].splitlines()
    assert stopped.startswith("stopped by an error: ") and error.startswith(f"error: {LOST}")
    assert said[1] == ""
    assert load_model(place).network.layers


@pytest.mark.parametrize(("workers", "level"), [("2", "ERROR"), ("1", None)])
def test_pytorch_logs_no_stack_of_a_lost_rank(workers, level, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", workers)
    monkeypatch.setenv("TORCH_CPP_LOG_LEVEL", "")
    monkeypatch.delenv("TORCH_CPP_LOG_LEVEL")
    monkeypatch.setattr(sys, "argv", ["rescnet", "--version"])
    with pytest.raises(SystemExit):
        command.main()
    assert os.environ.get("TORCH_CPP_LOG_LEVEL") == level
