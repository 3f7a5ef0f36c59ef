"""Start-up, help, removed flags and exit codes of all commands."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rescnet import ComputeOptions, NetworkConfig, __version__
from rescnet.cli import COMMANDS
from rescnet.config.option import options_of

HEAVY = ["torch", "sklearn", "pandas", "scipy", "numpy"]
HELPS = [["--help"], *([name, "--help"] for name in COMMANDS), ["train", "--help-all"], ["--version"]]
AFTER_HELP = f"""
import sys
from rescnet.cli import app
for words in {HELPS}:
    app(words, standalone_mode=False)
    loaded = [name for name in {HEAVY} if name in sys.modules]
    if loaded:
        sys.exit(f"{{words}} imports {{loaded}}")
"""
OPTIONS = options_of(NetworkConfig) | options_of(ComputeOptions)
COMMON = [name for name, entry in OPTIONS.items() if entry.metadata["common"]]


def flags_in(text):
    """Return the flags at the start of the lines of a help text."""
    words = (line.strip("│ ").split(" ")[0] for line in text.splitlines())
    return [word for word in words if word.startswith("--")]


def test_help_imports_no_heavy_package():
    done = subprocess.run([sys.executable, "-c", AFTER_HELP], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"rescnet {__version__}" in done.stdout and "Largest number of layers" in done.stdout


def test_help_lists_the_commands_and_exit_codes(rescnet):
    text = rescnet("--help").stdout
    assert "Exit codes: 0 success" in text and "130 interrupted" in text
    for name, meaning in COMMANDS.items():
        assert f"│ {name} " in text and meaning in text


def test_help_of_train_shows_the_common_options_and_two_examples(rescnet):
    text = rescnet("train", "--help").stdout
    own = ["--preset", "--quality", "--time-limit", "--out", "--resume"]
    assert flags_in(text) == [*own, *("--" + name.replace("_", "-") for name in COMMON), "--help-all", "--help"]
    assert sum(line.strip().startswith("rescnet train ") for line in text.splitlines()) == 2


def test_help_all_shows_every_option_in_its_group(rescnet):
    result = rescnet("train", "--help-all")
    assert result.exit_code == 0
    shown = flags_in(result.stdout)
    assert len(shown) == len(set(shown))
    for name, entry in OPTIONS.items():
        assert "--" + name.replace("_", "-") in shown
        assert f"─ {entry.metadata['group']} ─" in result.stdout
    assert {"--config", "--json", "--image-size", "--limit", "--tensorboard"} <= set(shown)


def test_help_describes_the_flag_that_is_shown_and_its_default(rescnet, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    lines = rescnet("train", "--help-all").stdout.splitlines()
    for flag, said in {
        "--stop-at-zero-error": "--no-stop-at-zero-error",
        "--layers": "(default by the images)",
        "--head": "(lda, multiclass-lda, ridge; default by the images)",
        "--ceiling": "(default 0.8)",
        "--matrix-log": "(default by the images)",
    }.items():
        line = next(line for line in lines if line.startswith("│") and f" {flag} " in line)
        assert said in line, line


def test_version_and_unknown_words(rescnet):
    assert rescnet("--version").stdout == f"rescnet {__version__}\n"
    assert rescnet("frobnicate").exit_code == 2
    unknown = rescnet("train", "--filterz", 3)
    assert unknown.exit_code == 2 and "No such option: --filterz" in unknown.stderr
    assert "--filters" in unknown.stderr  # the most similar flags are named


@pytest.mark.slow
def test_python_m_rescnet(tmp_path):
    command = [sys.executable, "-m", "rescnet", "info", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and result.stdout == ""
    assert (
        result.stderr
        == f"error: {tmp_path} must be a model's folder, but has no model.json. Use one that `train` wrote.\n"
    )
