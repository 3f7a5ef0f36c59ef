"""Checks of the notebook: it runs from top to bottom in a fresh kernel, and is stored without outputs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install 'rescnet[dev]'")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install 'rescnet[dev]'")
for needed in ("ipykernel", "matplotlib"):
    pytest.importorskip(needed, reason=f"{needed} is not installed: pip install 'rescnet[dev]'")

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "digits.ipynb"
LOAD = "digits = load_digits()\n"
FEWER = "digits |= {name: digits[name][:700] for name in ('data', 'images', 'target')}\n"
CELL_TIMEOUT = 300  # seconds; a cell that hangs fails, a slow machine does not


@pytest.fixture
def this_python(tmp_path, monkeypatch):
    """Make a kernel of this interpreter, found before any installed one; return its name."""
    kernel = tmp_path / "jupyter" / "kernels" / "rescnet-test"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "test", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    for variable in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # networks this small wait for more longer than they compute
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return kernel.name


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.mark.slow
def test_the_notebook_runs(notebook, this_python, tmp_path):
    """On 700 digits: with all of them it takes three times as long, and runs no other line."""
    (loading,) = [cell for cell in notebook.cells if cell.source.startswith(LOAD)]
    loading.source = loading.source.replace(LOAD, LOAD + FEWER)
    client = nbclient.NotebookClient(
        notebook, kernel_name=this_python, timeout=CELL_TIMEOUT, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()  # raises what a cell raises
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        assert not [output.text for output in outputs if output.output_type == "stream"]  # no warnings on stderr
        if "plt.show()" in cell.source:
            assert ["image/png" in output.data for output in outputs] == [True]


def test_the_notebook_is_stored_without_outputs(notebook):
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None
            assert len(cell.source.splitlines()) <= 20
