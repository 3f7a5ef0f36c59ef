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


def run(*command, cwd, **environment):
    """Run Python without the paths of this process; return what it prints."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False
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
        str(path.relative_to(ROOT / "src")) for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(archives / f"rescnet-{__version__}-py3-none-any.whl") as wheel:
        assert {name for name in wheel.namelist() if ".dist-info" not in name} == package
    with tarfile.open(archives / f"rescnet-{__version__}.tar.gz") as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert {f"src/{name}" for name in package} | {"README.md", "LICENSE", "CHANGELOG.md"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_an_archive_can_be_installed(archives, tmp_path, kind):
    """PyTorch and the other dependencies come from this environment, so nothing is downloaded."""
    (archive,) = archives.glob(f"*.{kind}")
    target, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    how = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    run("-m", "pip", "install", *how, "--target", str(target), str(archive), cwd=empty)
    here = {"cwd": empty, "PYTHONPATH": str(target)}
    assert run("-c", "import rescnet; print(rescnet.__file__)", **here).startswith(str(target))
    assert run("-m", "rescnet", "--version", **here) == f"rescnet {__version__}\n"
    assert "train" in run("-m", "rescnet", "--help", **here)
    assert "cifar10" in run("-c", "import rescnet; print(rescnet.preset_names())", **here)


@pytest.mark.parametrize(("typed", "completed"), [("rescnet tr", "train"), ("rescnet train --la", "--layers")])
def test_a_shell_completes_commands_and_options(typed, completed, tmp_path):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_RESCNET_COMPLETE": "complete_bash"}
    path = {"PYTHONPATH": str(PACKAGE.parent)}
    assert run("-m", "rescnet", cwd=tmp_path, **words, **path).split() == [completed]
