"""A table's curves: training and test accuracy over layers, the paper's figures as diamonds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..charts import Line, Mark, line_chart
from .plans import Plan


def curves(plan: Plan, entries: Sequence[Mapping[str, Any]], dataset: str | None = None) -> str:
    """Draw the experiments of a plan, or those on one data set: tables hold sets whose accuracies lie far apart.

    Of several runs of one experiment the deepest is drawn. Where not all have as many training images, names say so.
    """
    found = {entry["name"]: entry for entry in sorted(entries, key=lambda entry: (entry["layers"], -entry["seed"]))}
    drawn = [
        (number, experiment, found[experiment.name])
        for number, experiment in enumerate(plan.experiments)
        if experiment.name in found and dataset in (None, experiment.dataset)
    ]
    uneven = len({entry["images"]["train"] for *_, entry in drawn}) > 1
    lines, marks, seen = [], [], []
    for number, experiment, entry in drawn:
        name = f"{experiment.label}, {entry['images']['train']:,} images" if uneven else experiment.label
        for share, dashed in (("test_accuracy", False), ("train_accuracy", True)):
            points = [(r["layer"], 100 * r[share]) for r in entry["history"] if r[share] is not None]
            if points:
                lines.append(Line(name, points, dashed, colour=number))
                name = ""  # the legend has each network once
        seen += [100 * r["test_accuracy"] for r in entry["history"] if r["test_accuracy"] is not None]
        if readout := entry["summary"].get("readout"):
            share = 100 * readout["test"]
            marks.append(Mark(f"{experiment.label}, readout {share:.2f}", entry["layers"], share, colour=number))
            seen.append(share)
        for figure in (figure for figure in experiment.paper if figure.layers):
            if (figure.layers, figure.accuracy) not in {(mark.x, mark.y) for mark in marks}:
                marks.append(Mark(f"paper {figure.accuracy:g}", figure.layers, figure.accuracy, colour=number))
            seen.append(figure.accuracy)
    several = len({experiment.dataset for experiment in plan.experiments}) > 1
    title = f"{plan.title}: {dataset}" if several and dataset else plan.title
    axes = "layers", "accuracy, %: test, and dashed training"
    if not seen:
        return line_chart(title, *axes, [])
    best, typical = max(seen), sorted(seen)[len(seen) // 10]
    left = 100 - best  # what is still wrong sets the scale
    within = max(0.0, min(typical, best - left)) - 0.1 * left, 100 + 0.05 * left
    return line_chart(title, *axes, lines, marks, y_range=within)


def datasets(plan: Plan, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the data sets of a plan that something was run on."""
    run = {entry["name"] for entry in entries}
    return list(dict.fromkeys(e.dataset for e in plan.experiments if e.name in run))
