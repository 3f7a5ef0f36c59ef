"""README and docs say what is true: names exist, figures come from results, examples run."""

from __future__ import annotations

import importlib
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_readmes_table_is_that_of_results():
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / "results_table.py", "--check"], check=False)
    assert done.returncode == 0, "run python benchmarks/results_table.py"


def test_the_readmes_example_runs(tmp_path, capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    assert len(code.strip().splitlines()) <= 10
    file = tmp_path / "example.py"
    file.write_text(code)
    runpy.run_path(str(file))
    accuracy = float(capsys.readouterr().out.splitlines()[0])
    assert accuracy > 0.98


def equation_names():
    text = (ROOT / "docs" / "equations.md").read_text().split("## Symbols")[0]
    return sorted({name for name in re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", text) if not name.endswith(".toml")})


@pytest.mark.parametrize("name", equation_names())
def test_every_function_the_equations_page_names_exists(name):
    full = name if name.startswith("rescnet.") else f"rescnet.stages.{name}"
    parts = full.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return
    raise AssertionError(name)


@pytest.mark.parametrize("file", sorted((ROOT / "results").glob("*.json")), ids=lambda file: file.name)
def test_results_say_where_they_come_from(file):
    content = json.loads(file.read_text())
    for result in content if isinstance(content, list) else [content]:
        assert {"dataset", "config", "commit", "command", "device", "versions", "seed"} <= set(result)
