"""README and docs say what is true: names exist, examples run."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path

import pytest
from sklearn.datasets import load_digits

import rescnet
from rescnet import ResCNetClassifier

ROOT = Path(__file__).parent.parent


def test_the_readmes_example_runs(tmp_path, capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    assert len(code.strip().splitlines()) <= 10
    file = tmp_path / "example.py"
    file.write_text(code)
    runpy.run_path(str(file))
    accuracy = float(capsys.readouterr().out.splitlines()[0])
    assert accuracy > 0.98


def test_the_readmes_lines_on_saving_and_exporting_run(tmp_path, monkeypatch):
    """With a smaller classifier than the one above them, since ONNX takes seconds a layer."""
    for name in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(name, reason="export to ONNX needs rescnet[export]")
    monkeypatch.chdir(tmp_path)
    X, y = load_digits(return_X_y=True)
    known = {"X": X[:200], "y": y[:200], "classifier": ResCNetClassifier(n_layers=1, n_filters=4).fit(X[:200], y[:200])}
    (tmp_path / "lines.py").write_text(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1])
    runpy.run_path("lines.py", known)
    assert (tmp_path / "digits.onnx").exists()
    assert rescnet.load("runs/mine").class_names == tuple("0123456789")


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
