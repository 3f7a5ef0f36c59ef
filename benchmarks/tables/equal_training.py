"""Held-out accuracy where as many training images are right: what a reading is worth once its speed is taken out."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

from rescnet.charts import Line, line_chart

from .results_files import DOCS, RESULTS, not_run_yet, read

RUNS = (  # what it is called here, the file, the run's name there
    ("γ = 0.03", "explore-cifar10-steps", "25 gamma .03"),
    ("γ = 0.1", "explore-cifar10-steps", "60 all samples"),
    ("γ = 1", "explore-cifar10-deep", "gamma 1"),
    ("γ = 3", "explore-cifar10-deep", "gamma 3"),
    ("γ = 1, α = 0.2", "explore-cifar10-more", "gamma 1, alpha .2"),
    ("γ = 0.1, own images", "explore-cifar10-steps", "60 same"),
    ("γ = 0.1, own images, σ = 64", "explore-cifar10-steps", "60 sigma 64"),
    ("γ = 0.1, own images, α = 0.2 after layer 1", "explore-cifar10-steps", "60 alpha .2, first 1"),
    ("γ = 1, stride 1", "table3", "rate-0.4"),
    ("γ = 1, stride 1, means of adaptive cells", "table2", "cifar10-means"),
    ("γ = 0.3, softmax", "explore-cifar10-cells", "softmax .1, gamma .3"),
    ("γ = 0.3, softmax, means of adaptive cells", "explore-cifar10-cells", "mean over adaptive cells"),
    ("γ = 1, means of adaptive cells", "explore-cifar10-more", "gamma 1, mean over adaptive cells"),
    ("the residual regressed (not the paper's)", "explore-cifar10-deep", "ridge head 2 .3"),
    ("γ = 1, flips", "table4", "cifar10-flips"),
)
OWN = "own images"
AT = (93.0, 95.0, 96.0, 97.0, 98.0, 99.0, 99.75)
NEAR = 0.25  # a layer counts at a training accuracy it is no further from
FROM = 90.0  # the picture's first training accuracy
LEFT_OUT = "γ = 1, means of adaptive cells"  # of the picture, which has ten colours: at stride 1 they go further
HELD_OUT = 68.0, 88.0  # of the picture, with room for the legend below the lines
TITLE = "CIFAR-10: held-out accuracy where as many training images are right"


def curves() -> list[tuple[str, list[tuple[float, float]]]]:
    """Return each run that is there: its name, and training and held-out accuracy in %, layer by layer."""
    found = []
    for name, file, wanted in RUNS:
        path = RESULTS / f"{file}.json"
        runs = [run for run in read(path) if run["name"] == wanted] if path.exists() else []
        if runs:
            found.append((name, _points(runs[0]["history"])))
    return found


def at(points: list[tuple[float, float]], training: float) -> float | None:
    """Return the mean held-out accuracy of the layers near a training accuracy, None where there is none."""
    near = [held for train, held in points if abs(train - training) <= NEAR]
    return mean(near) if near else None


def table() -> list[str]:
    """Return held-out accuracies, a row a reading, a column a training accuracy."""
    rows = []
    for name, points in curves():
        found = (at(points, training) for training in AT)
        rows.append(f"| {name} | {' | '.join('–' if held is None else f'{held:.2f}' for held in found)} |")
    if not rows:
        return not_run_yet("python benchmarks/explore.py")
    return [
        f"![{TITLE}](equal-training-cifar10.svg)",
        "",
        "| reading | " + " | ".join(f"training {training:g} %" for training in AT) + " |",
        "|---|" + "---|" * len(AT),
        *rows,
        "",
        f"Held-out accuracy in %, the mean of all layers with a training accuracy within {NEAR:g} of the column's; "
        f"45,000 images, one seed each, stride 4 but where a row says otherwise. {OWN.capitalize()}: each sign's "
        "classifier sees those alone (`sign_samples`).",
    ]


def pictures() -> dict[Path, str]:
    """Return most of it drawn: means of neighbouring layers, so that a line can be followed; a colour each."""
    steps = [FROM + 2 * NEAR * number for number in range(int((100 - FROM) / (2 * NEAR)) + 1)]
    lines = []
    for name, points in curves():
        if OWN in name or "α" in name or name == LEFT_OUT:
            continue
        found = [(step, at(points, step)) for step in steps]
        lines.append(Line(name, [(step, held) for step, held in found if held is not None]))
    shown = [line for line in lines if line.points]
    if not shown:
        return {}
    drawn = line_chart(TITLE, "training accuracy in %", "held-out accuracy in %", shown, y_range=HELD_OUT)
    return {DOCS / "equal-training-cifar10.svg": drawn}


def _points(history: list[dict[str, Any]]) -> list[tuple[float, float]]:
    known = (record for record in history if record["validation_accuracy"] is not None)
    return [(100 * record["train_accuracy"], 100 * record["validation_accuracy"]) for record in known]
