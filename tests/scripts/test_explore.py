"""``benchmarks/explore.py`` goes on with a file it wrote before; its variants say what ``results/`` records."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import explore
import pytest

from rescnet import make_config

VARIANTS = Path(explore.__file__).parent / "variants"
RESULTS = VARIANTS.parents[1] / "results"


def explorer_with(**changes):
    """Return an explorer whose file holds one finished run of the digits network, changed."""
    config = make_config("digits", layers=3)
    history = [{"validation_accuracy": accuracy} for accuracy in (0.5, 0.8, 0.9)]
    run = {"name": "base", "dataset": "digits", "training_images": 4, "config": config.to_dict()}
    run |= {"stopped": "3 layers were asked for", "readout": None, "history": history, **changes}
    found = explore.Explorer.__new__(explore.Explorer)
    found.arguments, found.training, found.runs = Namespace(dataset="digits", split=0), ([0] * 4, [0] * 4), [run]
    return found, config


def test_a_finished_run_is_not_run_again():
    explorer, config = explorer_with()
    assert explorer.known("base", config) == pytest.approx((0.5 + 0.8 + 0.9) / 3)
    assert len(explorer.runs) == 1


def test_options_that_came_later_count_as_their_defaults():
    older = make_config("digits", layers=3).to_dict()
    del older["loo_correction"]
    explorer, config = explorer_with(config=older)
    assert explorer.known("base", config) is not None


@pytest.mark.parametrize(
    "changes",
    [{"name": "other"}, {"dataset": "mnist"}, {"training_images": 3}, {"split": 1}, {"config": {"layers": 2}}],
)
def test_another_run_is_another(changes):
    explorer, config = explorer_with(**changes)
    assert explorer.known("base", config) is None
    assert len(explorer.runs) == 1


def test_a_run_cut_by_the_time_makes_room_for_a_whole_one():
    explorer, config = explorer_with(stopped=explore.TIME_WAS_UP)
    assert explorer.known("base", config) is None
    assert not explorer.runs


def test_a_run_without_its_readout_is_not_whole():
    options = make_config("digits", layers=3, readout="kernel")
    explorer, _ = explorer_with(config=options.to_dict())
    assert explorer.known("base", options) is None
    assert not explorer.runs


@pytest.mark.parametrize("file", sorted(RESULTS.glob("explore-*.json")), ids=lambda file: file.stem)
def test_variants_say_what_was_run(file):
    """A preset that changes must not change what a variant of before is: it names the preset it had, or the options."""
    rows = json.loads((VARIANTS / file.name.removeprefix("explore-")).read_text())[0]
    runs = {(run["name"], run["seed"]): run for run in json.loads(file.read_text())}
    found = [(row, runs[key]) for row in rows if (key := (row["name"], row.get("seed", 0))) in runs]
    assert found
    for row, run in found:
        options = {key: value for key, value in row.items() if key not in ("name", "start")}
        told = make_config(row.get("start", run["dataset"]), **options).to_dict()
        recorded = {key: value for key, value in run["config"].items() if key in told}
        assert told | recorded == told, row["name"]
