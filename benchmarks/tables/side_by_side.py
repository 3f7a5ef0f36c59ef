"""Accuracy over seconds of a neighbour trained by back-propagation and of our network: one plot, one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rescnet.experiments.charts import Line, line_chart

from .results_files import DOCS, RESULTS, not_run_yet, percent, read, source_line

MOMENTS = (5, 15, 60, 240, 900)  # seconds at which the table looks
PICTURE = "side-by-side.svg"
FIRST = "side-by-side-cifar10.json"


def pictures() -> dict[Path, str]:
    """Return the plot of each data set; CIFAR-10's is ``docs/side-by-side.svg``."""
    found = {}
    for file in sorted(RESULTS.glob("side-by-side-*.json")):
        result = read(file)
        lines = []
        for number, who in enumerate(("neighbour", "ours")):
            points = [(r["seconds"], 100 * r["test_accuracy"]) for r in result[who]["history"] if "test_accuracy" in r]
            lines.append(Line(result[who]["name"], points, colour=number))
        drawn = [line for line in lines if line.points]
        best = max((y for line in drawn for _, y in line.points), default=100.0)
        title = f"{result['dataset']}: test accuracy over training seconds, {result['device']}"
        within = max(0.0, best - 40), best + 2
        chart = line_chart(title, "training seconds, log scale", "test accuracy, %", drawn, log_x=True, y_range=within)
        found[DOCS / _picture(file)] = chart
    return found


def table() -> list[str]:
    """Return who is how good after how many seconds, at the end, and where held-out images say to stop."""
    found: list[str] = []
    for file in sorted(RESULTS.glob("side-by-side-*.json")):
        result = read(file)
        recipe = result["neighbour"]["recipe"]
        found += [
            "",
            f"{result['dataset']}, {result['images']['train']:,} training images, "
            f"{'with' if recipe['flips'] else 'no'} augmentation; test accuracy in %:",
            "",
            f"| | {' | '.join(f'after {s} s' for s in MOMENTS)} | chosen on held-out images | at the end |",
            "|---|" + "---|" * (len(MOMENTS) + 2),
        ]
        found += [_row(result[who]) for who in ("neighbour", "ours") if result[who]["history"]]
        found += ["", source_line(result), "", f"![accuracy over seconds]({_picture(file)})"]
    return found[1:] or not_run_yet("python benchmarks/side_by_side.py")


def _row(run: dict[str, Any]) -> str:
    history = [record for record in run["history"] if "test_accuracy" in record]
    cells = []
    for moment in MOMENTS:
        before = [record for record in history if record["seconds"] <= moment]
        over = moment > history[-1]["seconds"]
        cells.append("–" if not before or over else percent(before[-1]["test_accuracy"]))
    last = history[-1]
    best = max(history, key=lambda record: (record.get("validation_accuracy", 0.0), -record["seconds"]))
    chosen = _moment(best) if "validation_accuracy" in last else "–"
    return f"| {run['name']} | {' | '.join(cells)} | {chosen} | {_moment(last)} |"


def _moment(record: dict[str, Any]) -> str:
    where = f"epoch {record['epoch']}" if "epoch" in record else f"layer {record['layer']}"
    return f"**{percent(record['test_accuracy'])}** ({where}, {record['seconds']:.0f} s)"


def _picture(file: Path) -> str:
    return PICTURE if file.name == FIRST else f"{file.stem}.svg"
