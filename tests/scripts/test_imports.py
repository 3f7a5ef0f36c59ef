"""Every script of the benchmarks can be imported: what it takes from the package is still there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

SCRIPTS = sorted(file.stem for file in (Path(__file__).parents[2] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_can_be_imported(name):
    assert import_module(name).__doc__
