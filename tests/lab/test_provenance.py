"""Results say where they come from, and name no path of the machine they were measured on."""

from __future__ import annotations

import re
import shlex
import sys

import torch

from lab import provenance


def test_the_command_can_be_read_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["lab/bench.py", "--out", str(tmp_path / "a b.json"), "results/c.json"])
    shown = ["python", "-m", "lab.bench", "--out", "a b.json", "results/c.json"]
    assert shlex.split(provenance.shown_command("lab.bench")) == shown


def test_the_commit_is_that_of_the_code_or_the_one_named(monkeypatch, tmp_path):
    monkeypatch.delenv("RESCNET_COMMIT", raising=False)
    found = r"[0-9a-f]{7,}\+?" if (provenance.ROOT / ".git").exists() else "unknown"
    assert re.fullmatch(found, provenance.commit())
    monkeypatch.setenv("RESCNET_COMMIT", "abc1234")
    assert provenance.commit() == "abc1234"
    monkeypatch.delenv("RESCNET_COMMIT")
    copy = provenance.ROOT / "lab" if (provenance.ROOT / ".git").exists() else tmp_path
    monkeypatch.setattr(provenance, "ROOT", copy)  # inside a repository that is not its own, or in none
    assert provenance.commit() == "unknown"


def test_facts_of_a_run():
    facts = provenance.origin("cpu", "do it")
    assert facts["command"] == "do it" and facts["versions"]["torch"] == torch.__version__
    assert facts["device"].startswith("CPU, ")
