"""Checks of what is handed out: version, wheel, source archive and shell completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from rescnet import __version__

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "rescnet"


def run(*command, cwd, python=sys.executable, **environment):
    """Run Python, or another program, without the paths of this process; return what it prints."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, *command], cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_place_names_the_same_version():
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == __version__
    assert re.search(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(), re.M)[1] == __version__


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Build a wheel and a source archive; return their folder."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install 'rescnet[dev]'")
    folder = tmp_path_factory.mktemp("dist")
    run("-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder), cwd=ROOT)
    return folder


@pytest.mark.slow
def test_archives_hold_every_file_of_the_package(archives):
    package = {
        str(path.relative_to(ROOT / "src"))
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    with zipfile.ZipFile(archives / f"rescnet-{__version__}-py3-none-any.whl") as wheel:
        assert {name for name in wheel.namelist() if ".dist-info" not in name} == package
    with tarfile.open(archives / f"rescnet-{__version__}.tar.gz") as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert {f"src/{name}" for name in package} | {"README.md", "LICENSE", "CHANGELOG.md"} <= names


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """Create an environment that holds nothing but pip; return its Python."""
    folder = tmp_path_factory.mktemp("environment")
    run("-m", "venv", str(folder), cwd=folder)
    python = folder / "bin" / "python"
    probe = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder / "probe", "safetensors"]
    if subprocess.run(probe, cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip("the package registry cannot be reached")
    return str(python)


@pytest.mark.package
@pytest.mark.parametrize("kind", ["tar.gz", "whl"])
def test_an_archive_works_in_an_empty_environment(archives, empty, tmp_path, kind):
    """The first installs the dependencies too, of the pinned versions; both train, evaluate and build the page."""
    (archive,) = archives.glob(f"*.{kind}")
    here = {"cwd": tmp_path, "python": empty}
    pins = ("--constraint", str(ROOT / "constraints.txt"))
    run("-m", "pip", "uninstall", "--quiet", "--yes", "rescnet", **here)
    run("-m", "pip", "install", "--quiet", *pins, str(archive), **here)
    run("-m", "pip", "check", **here)
    place = Path(run("-c", "import rescnet; print(rescnet.__file__)", **here).strip())
    assert place.is_relative_to(Path(empty).parent.parent)

    def rescnet(*words):
        return run(*words, cwd=tmp_path, python=Path(empty).with_name("rescnet"))

    assert rescnet("--version") == f"rescnet {__version__}\n" and "train" in rescnet("--help")
    rescnet("train", "--limit", "100", "--layers", "1", "--filters", "4", "--out", "model")
    assert "leave-one-out accuracy of 100 training images" in rescnet("evaluate", "model")
    rescnet("playground", "--no-open", "--out", "page.html")
    assert (tmp_path / "page.html").stat().st_size > 50_000


@pytest.mark.parametrize(("typed", "completed"), [("rescnet tr", "train"), ("rescnet train --la", "--layers")])
def test_a_shell_completes_commands_and_options(typed, completed, tmp_path):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_RESCNET_COMPLETE": "complete_bash"}
    path = {"PYTHONPATH": str(PACKAGE.parent)}
    assert run("-m", "rescnet", cwd=tmp_path, **words, **path).split() == [completed]
