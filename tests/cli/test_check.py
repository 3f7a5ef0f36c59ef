"""``rescnet check``: one pass over an image folder, which lists every problem."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest


@pytest.fixture
def messy(pictures, save_png, tmp_path):
    """The training digits with a colour image, a text file, a damaged image and an empty folder."""
    folder = shutil.copytree(pictures / "train", tmp_path / "messy")
    save_png(folder / "one" / "large.png", np.zeros((300, 400, 3)))
    (folder / "one" / "notes.txt").write_text("hello")
    (folder / "two" / "torn.png").write_bytes((folder / "one" / "large.png").read_bytes()[:400])
    (folder / "ten").mkdir()
    return folder


def test_a_good_folder(rescnet, pictures):
    result = rescnet("check", pictures, "--strict")
    assert result.exit_code == 0
    for words in (
        "digits: 10 classes, 300 images\n",
        "sizes (height×width): 8×8\n",
        "colour: 0 in colour, 300 grey\n",
        "problems: none\n",
        "training would use 8×8 images in grey",
    ):
        assert words in result.stdout
    counts = [str(len(list((pictures / split / "eight").iterdir()))) for split in ("train", "test")]
    assert [line.split() for line in result.stdout.splitlines()[1:3]] == [
        ["class", "train", "test"],
        ["eight", *counts],
    ]


def test_a_class_name_cannot_change_the_terminal(rescnet, pictures, tmp_path):
    folder = shutil.copytree(pictures / "train", tmp_path / "own")
    (folder / "one").rename(folder / "\x1b[2Jone\n")
    result = rescnet("check", folder)
    assert result.exit_code == 0 and r"\x1b[2Jone\n" in result.stdout and "\x1b" not in result.stdout


def test_all_problems_are_listed(rescnet, messy):
    result = rescnet("check", messy)
    assert result.exit_code == 0
    for words in (
        "sizes (height×width): 2 sizes from 8×8 to 300×400\n",
        "colour: 1 in colour, 200 grey\n",
        "  1 unreadable file, skipped: two/torn.png\n",
        "  1 file that is not an image, skipped: one/notes.txt\n",
        "  1 class folder without training images, skipped: ten\n",
        "  200 grey images among colour ones, converted to colour: eight/",
        "  1 image of another size, resized and centre-cropped: one/large.png\n",
        "training would use 8×8 images in colour",
    ):
        assert words in result.stdout
    strict = rescnet("check", messy, "--strict")
    assert strict.exit_code == 1 and strict.stdout.endswith("\n--strict refuses this folder\n")


def test_json(rescnet, messy):
    facts = json.loads(rescnet("check", messy, "--json").stdout)
    assert facts["classes"]["one"] == {"train": len(list((messy / "one").glob("*.png")))}
    assert facts["sizes"][1] == {"height": 300, "width": 400, "images": 1}
    assert facts["image_shape"] == [3, 8, 8] and facts["obstacle"] is None
    (torn,) = [problem for problem in facts["problems"] if problem["kind"] == "unreadable file"]
    assert torn["path"] == str(messy / "two" / "torn.png") and "cannot be read as an image" in torn["reason"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "must have one sub-folder of images per class, got none"),
        (("1.png",), "got none; "),
        (("a/1.png", "a/2.png"), "must have at least two classes, got only 'a'"),
    ],
)
def test_training_is_impossible(names, message, rescnet, save_png, tmp_path):
    for name in names:
        save_png(tmp_path / name, np.zeros((8, 8)))
    result = rescnet("check", tmp_path)
    assert result.exit_code == 1 and "training is impossible: " in result.stdout and message in result.stdout
    assert "problems: none" not in result.stdout and "rescnet check" not in result.stdout


def test_another_source_is_refused_with_the_right_remedy(refused, tmp_path):
    (tmp_path / "digits.npz").touch()
    assert "rescnet train checks other sources" in refused("check", tmp_path / "digits.npz")
    message = refused("check", tmp_path / "none")
    assert "folder must be a folder of images" in message and "Check the path" in message


def test_it_starts_without_torch(pictures):
    """Importing torch takes longer than reading a small folder."""
    code = "import sys; from rescnet.cli import app; app(['check', sys.argv[1]], standalone_mode=False)"
    code += "; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(pictures)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "training would use" in done.stdout, done.stderr
