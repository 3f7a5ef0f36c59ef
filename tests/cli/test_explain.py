"""``rescnet explain`` on digits in PNG files."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def kernel_model(tmp_path_factory, pictures, rescnet, small):
    """A model with a kernel readout, trained on ``pictures``."""
    place = tmp_path_factory.mktemp("models") / "kernel"
    result = rescnet("train", pictures, *small, "--layers", "1", "--readout", "kernel", "--out", place)
    assert result.exit_code == 0, result.output
    return place


def test_names_the_training_file(rescnet, kernel_model, pictures):
    file = sorted((pictures / "train" / "four").iterdir())[2]
    result = rescnet("explain", kernel_model, file)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("four ") and "The readout" in result.stdout
    nearest = result.stdout.split("nearest training images")[1].splitlines()
    assert nearest[2].split()[:3] == [f"train/four/{file.name}", "four", "1.00"]
    assert "speak for four (left) and against it (right)" in result.stdout and "█" in result.stdout


def test_answers_like_predict(rescnet, model, pictures):
    file = sorted((pictures / "test" / "six").iterdir())[0]
    answer = rescnet("predict", model, file, "--json").stdout
    result = rescnet("explain", model, file)
    assert f'"class": "{result.stdout.split()[0]}"' in answer.split("probability")[0]
    rows = [line.rsplit(None, 3) for line in result.stdout.split("outputs\n")[1].splitlines()[1:7]]
    assert [row[0] for row in rows] == ["1", "2", "3", "pixels for", "pixels against", "intercept"]
    last, own, against, rest = (float(row[1]) for row in rows[2:])
    assert own >= 0 >= against and abs(own + against + rest - last) < 0.003
    assert "training images" not in result.stdout


@pytest.mark.slow
def test_writes_a_figure(rescnet, refused, model, pictures, tmp_path):
    pytest.importorskip("matplotlib")
    file, out = next((pictures / "test" / "six").iterdir()), tmp_path / "why.png"
    assert "figure written" in rescnet("explain", model, file, "--plot", out).stdout
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "must be a new file" in refused("explain", model, file, "--plot", out)
    assert ".png, .svg or .pdf" in refused("explain", model, file, "--plot", tmp_path / "why.txt")


def test_bad_input(refused, model, pictures, tmp_path):
    assert "image files must exist" in refused("explain", model, tmp_path / "none.png")
    assert "image must be a file" in refused("explain", model, pictures)
    (tmp_path / "text.png").write_text("no image")
    assert "text.png" in refused("explain", model, tmp_path / "text.png")
