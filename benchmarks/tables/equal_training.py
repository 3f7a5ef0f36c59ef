"""Held-out accuracy where as many training images are right: what a reading is worth once its speed is taken out."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from rescnet.experiments.charts import Line, line_chart

from .results_files import DOCS, RESULTS, not_run_yet, read

NEAR = 0.25  # a layer counts at a training accuracy it is no further from; near 100 %, half of what is wrong there
FROM = 90.0  # the pictures' first training accuracy
WORDS = {
    "own images": "Own images: each sign's classifier sees those alone (`sign_samples`).",
    "drawn filter signs": "Drawn filter signs: of PCA's filters, anew in each layer (`pca_signs`).",
    "shares": "Shares: sigmoids divided by their sum over the classes (`posterior`).",
}


@dataclass(frozen=True)
class Reading:
    """What a run is called here, its file, its name there, and whether the picture has it."""

    name: str
    file: str
    run: str
    drawn: bool = False


@dataclass(frozen=True)
class Comparison:
    """Readings of one data set's network, as ``equal_training.toml`` has them.

    Attributes
    ----------
    dataset, label : str
        For files, and for people.
    trainings : tuple of float
        Training accuracies that are columns, in %.
    runs : tuple of Reading
    """

    dataset: str
    label: str
    trainings: tuple[float, ...]
    runs: tuple[Reading, ...]

    @property
    def title(self) -> str:
        """What table and picture are about."""
        return f"{self.label}: held-out accuracy where as many training images are right"

    @property
    def picture(self) -> Path:
        """Where the picture lies."""
        return DOCS / f"equal-training-{self.dataset}.svg"


@cache
def comparisons() -> dict[str, Comparison]:
    """Return what is compared, by data set."""
    told = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return {
        dataset: Comparison(dataset, **(of | {"runs": tuple(Reading(**run) for run in of["runs"])}))
        for dataset, of in told.items()
    }


def curves(of: Comparison) -> list[tuple[Reading, list[tuple[float, float]]]]:
    """Return each reading whose run is there, and its training and held-out accuracy in %, layer by layer.

    Where a network was run again with all images, its run with some held out is meant.
    """
    found = []
    for reading in of.runs:
        path = RESULTS / f"{reading.file}.json"
        runs = [_points(run["history"]) for run in read(path) if run["name"] == reading.run] if path.exists() else []
        found += [(reading, points) for points in runs if points][:1]
    return found


def at(points: list[tuple[float, float]], training: float) -> float | None:
    """Return the mean held-out accuracy of the layers near a training accuracy, None where there is none."""
    near = [held for train, held in points if abs(train - training) <= min(NEAR, (100 - training) / 2)]
    return mean(near) if near else None


def table(of: Comparison) -> list[str]:
    """Return held-out accuracies, a row a reading, a column a training accuracy."""
    rows = []
    for reading, points in curves(of):
        found = (at(points, training) for training in of.trainings)
        rows.append(f"| {reading.name} | {' | '.join('–' if held is None else f'{held:.2f}' for held in found)} |")
    if not rows:
        return not_run_yet("python benchmarks/explore.py")
    return [
        f"![{of.title}]({of.picture.name})",
        "",
        "| reading | " + " | ".join(f"training {training:g} %" for training in of.trainings) + " |",
        "|---|" + "---|" * len(of.trainings),
        *rows,
        "",
        f"Held-out accuracy in %, the mean of all layers with a training accuracy within {NEAR:g} of the column's, or "
        "half of what it lacks to 100 where that is less; "
        "45,000 images, one seed each, stride 4 but where a row says otherwise."
        + "".join(f" {told}" for word, told in WORDS.items() if any(word in reading.name for reading in of.runs)),
    ]


def pictures() -> dict[Path, str]:
    """Return them drawn: means of neighbouring layers, so that a line can be followed; a colour each."""
    even = [FROM + 2 * NEAR * number for number in range(int((100 - FROM) / (2 * NEAR)) + 1)]
    found = {}
    for of in comparisons().values():
        steps = sorted({*even, *(training for training in of.trainings if training > FROM)})
        lines = []
        for reading, points in curves(of):
            if not reading.drawn:
                continue
            held = [(step, at(points, step)) for step in steps]
            lines.append(Line(reading.name, [(step, share) for step, share in held if share is not None]))
        if shown := [line for line in lines if line.points]:
            axes = "training accuracy in %", "held-out accuracy in %"
            found[of.picture] = line_chart(of.title, *axes, shown)
    return found


def _points(history: list[dict[str, Any]]) -> list[tuple[float, float]]:
    known = (record for record in history if record["validation_accuracy"] is not None)
    return [(100 * record["train_accuracy"], 100 * record["validation_accuracy"]) for record in known]
