"""``make demo``: accuracy rises with the layers, and ends above the baseline."""

from __future__ import annotations

import re
import runpy
import time

import pytest


@pytest.mark.alone
@pytest.mark.slow
def test_accuracy_rises_above_the_baseline(capsys):
    start = time.perf_counter()
    runpy.run_module("lab.demo", run_name="__main__")
    assert time.perf_counter() - start < 20
    *lines, last = capsys.readouterr().out.splitlines()
    shares = [float(found[1]) for line in lines if (found := re.match(r" +\d+ +([\d.]+) %  █+$", line))]
    ours, baseline = map(float, re.findall(r"([\d.]+) %", last))
    assert len(shares) == 20 and shares[-1] == ours
    assert shares[-1] > shares[0] + 8 and shares[4] > shares[0] + 4 and shares[-1] > shares[4]
    assert ours > baseline + 2 and "SVC" in last
