"""A small attack on files: every outcome is a clean error, the same answer, or another valid one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.attack.data_files import attack_data
from lab.attack.models import attack_models
from lab.attack.outcomes import CLEAN, FAILURES, HANG, SAME, TRACEBACK, WRONG, Tally, judge

ROOT = Path(__file__).parents[2]
SMALL = {attack_models: 150, attack_data: 150}


@pytest.mark.slow
@pytest.mark.parametrize("attack", SMALL, ids=["models", "data"])
def test_altered_files(attack, tmp_path):
    tally = Tally(SMALL[attack], quiet=True)
    attack(tally, 7, tmp_path)
    assert tally.failures == []
    assert tally.done == SMALL[attack]
    assert tally.outcomes[CLEAN] > 50 and tally.outcomes[SAME] > 2


@pytest.mark.slow
def test_kills():
    """In a process of its own: it forks."""
    words = [sys.executable, "-m", "lab.attack", "kills", "--count", "2", "--seed", "1", "--no-record"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"'{name}': 0" in done.stdout for name in FAILURES)


def test_outcomes_are_told_apart(monkeypatch):
    def raises(error):
        def read():
            raise error

        return read

    def hangs():
        while True:
            pass

    monkeypatch.setattr("lab.attack.outcomes.HANG_SECONDS", 0.1)
    cases = [(lambda: 1, SAME), (lambda: 2, WRONG), (hangs, HANG), (raises(KeyError("x")), TRACEBACK)]
    cases += [(raises(ValueError("one sentence")), CLEAN), (raises(ValueError("two\nlines")), TRACEBACK)]
    tally = Tally(6, quiet=True)
    for read, outcome in cases:
        found = judge(read, 1, False, (ValueError,))
        assert found[0] == outcome
        tally.add("kind", *found)
    assert len(tally.failures) == 4 and not tally.goes_on
