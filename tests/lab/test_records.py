"""Results say where they come from, and name no path of the machine they were measured on."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import torch

from rescnet.experiments import records


def test_the_command_can_be_read_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(
        sys, "argv", ["/usr/bin/rescnet", "bench", "--out", str(tmp_path / "a b.json"), "results/c.json"]
    )
    assert shlex.split(records.shown_command("rescnet")) == [
        "rescnet",
        "bench",
        "--out",
        "a b.json",
        "results/c.json",
    ]


def test_the_commit_is_that_of_the_code_or_the_one_named(monkeypatch, tmp_path):
    monkeypatch.delenv("RESCNET_COMMIT", raising=False)
    checkout = Path(records.__file__).parents[3]
    found = r"[0-9a-f]{7,}\+?" if (checkout / ".git").exists() else "unknown"
    assert re.fullmatch(found, records.commit())
    monkeypatch.setenv("RESCNET_COMMIT", "abc1234")
    assert records.commit() == "abc1234"
    monkeypatch.delenv("RESCNET_COMMIT")
    monkeypatch.setattr(records, "__file__", str(tmp_path / "site-packages" / "rescnet" / "experiments" / "records.py"))
    (tmp_path / "site-packages" / "rescnet" / "experiments").mkdir(parents=True)
    assert records.commit() == "unknown"


def test_facts_of_a_run():
    facts = records.origin("cpu", "do it")
    assert facts["command"] == "do it" and facts["versions"]["torch"] == torch.__version__
    assert facts["device"].startswith("CPU, ")
