"""Digits as a folder of PNG files, and a small model trained on it through the command line."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
from one_cpu import one_cpu_only
from typer.testing import CliRunner

from rescnet.cli import app


@pytest.fixture(scope="package", autouse=True)
def one_cpu():
    """Use one thread and no GPU: networks this small gain nothing from more."""
    with one_cpu_only():
        yield


@pytest.fixture(scope="package")
def small():
    """Options of a small network: three layers of six filters, and a fifth of the images held out."""
    sizes = ["--filters", "6", "--layers", "3", "--block-sizes", "4", "--block-stride", "2", "--pyramid", "2,1"]
    rest = ["--bank", "pca", "--no-stop-at-zero-error", "--validation-fraction", "0.2"]
    return ["--preset", "paper", *sizes, *rest]


@pytest.fixture(scope="package")
def rescnet():
    """Run a command; returns its result, with ``exit_code``, ``stdout`` and ``stderr``."""

    older = "mix_stderr" in signature(CliRunner.__init__).parameters
    apart = {"mix_stderr": False} if older else {}

    def run(*words):
        result = CliRunner(**apart).invoke(app, [str(word) for word in words])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture(scope="package")
def refused(rescnet):
    """Run a command that must be refused: exit code 2, one or two sentences on stderr, nothing on stdout."""

    def run(*words):
        result = rescnet(*words)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1, result.stderr
        assert result.stderr.rstrip(".\n").count(". ") <= 1, result.stderr  # the rule, and the remedy
        return result.stderr

    return run


@pytest.fixture(scope="package")
def save_png():
    from PIL import Image

    def save(path, pixels):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(pixels, np.uint8)).save(path)
        return path

    return save


@pytest.fixture(scope="package")
def pictures(tmp_path_factory, save_png):
    """A folder ``digits/train/<name>/*.png`` and ``test``; 200 and 100 images of ten classes."""
    from sklearn.datasets import load_digits

    digits, root = load_digits(), tmp_path_factory.mktemp("pictures") / "digits"
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    for number, (pixels, label) in enumerate(zip(digits.images[:300], digits.target, strict=False)):
        split = "train" if number < 200 else "test"
        save_png(root / split / names[label] / f"{number:03}.png", np.rint(pixels * 255 / 16))
    return root


@pytest.fixture(scope="package")
def model(tmp_path_factory, pictures, rescnet, small):
    """A model of three layers trained on ``pictures``."""
    place = tmp_path_factory.mktemp("models") / "digits"
    result = rescnet("train", pictures, *small, "--out", place)
    assert result.exit_code == 0, result.output
    return place
