"""Draw the figures of the record with matplotlib.

python -m lab.figures

They are written to ``lab/records/figures``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from rescnet.base.text import show_bytes, show_seconds

from .drawing import draw_layers, figure
from .other_pages import gradient_runs
from .questions import TABLES, load_question
from .records import RECORDS, file_of, layers_of, read_lines, runs_of
from .tables import equal_training, rungs, validation_at

FIGURES = RECORDS / "figures"


def curves(table: str, dataset: str) -> None:
    """Draw test accuracy over layers of a table's runs on one data set."""
    runs = [run for run in runs_of(table, file=table) if run["dataset"] == dataset]
    lines = [(run, [tuple(row) for row in layers_of(run)[["layer", "test", "train"]].to_numpy()]) for run in runs]
    draw_layers(FIGURES / f"{table}-{dataset}.svg", load_question(table), dataset, lines)


def equal_training_figures() -> None:
    """Draw validation accuracy over training accuracy."""
    known = {run["id"]: run for run in runs_of()}
    for dataset, about in equal_training().items():
        with figure(FIGURES / f"equal-training-{dataset}.svg") as axes:
            for reading in (r for r in about["runs"] if r.get("drawn")):
                points = layers_of(known[reading["run"]])
                steps = sorted({*(90 + 0.5 * n for n in range(21)), *(t for t in about["trainings"] if t > 90)})
                line = [(step, held) for step in steps if (held := validation_at(points, step)) is not None]
                axes.plot(*zip(*line, strict=True), label=reading["name"])
            title = f"{about['label']}: validation accuracy at equal training accuracy"
            axes.set(title=title, xlabel="training accuracy, %", ylabel="validation accuracy, %")
            axes.legend(frameon=False, fontsize=7)


def ladders() -> None:
    """Draw the steps from the paper's network to ours."""
    for name in ("ladder-cifar10-best", "ladder-cifar10"):
        steps = rungs([run for run in runs_of(file=name) if run.get("kept", True)])
        with figure(FIGURES / f"{name}.svg", 8, 0.9 + 0.27 * len(steps)) as axes:
            before = steps[0][1]
            for place, (_, held, _, _) in enumerate(steps):
                axes.barh(place, 100 * (held - before) or 0.05, left=100 * before, color="C0", height=0.6)
                axes.annotate(
                    f"{100 * held:.2f}", (100 * max(held, before), place), (4, -3), textcoords="offset points"
                )
                before = held
            axes.set_yticks(range(len(steps)), [step[0] for step in steps])
            axes.invert_yaxis()
            axes.set(title="CIFAR-10: one change per step, each kept", xlabel="validation accuracy, %")


def leagues() -> None:
    """Draw the family on each set with test images, the best first: filled dots are measured, hollow ones published."""
    for name in ("league-cifar10", "league-mnist", "league-fashion-mnist"):
        runs = sorted((run for run in runs_of(file=name) if run.get("accuracy")), key=lambda run: run["accuracy"])
        shares = [100 * run["accuracy"] for run in runs]
        published = [(100 * run["published"], place) for place, run in enumerate(runs)
                     if run.get("published") and "--limit" not in run["command"]]  # fmt: skip
        devices = sorted({run["device"] for run in runs})
        with figure(FIGURES / f"{name}.svg", 9, 0.9 + 0.28 * len(runs)) as axes:
            axes.plot(shares, range(len(runs)), "o", color="C0", label="measured")
            if published:
                axes.plot(*zip(*published, strict=True), "o", color="C1", markerfacecolor="none", label="published")
                axes.legend(frameon=False)
            axes.set_yticks(range(len(runs)), [run["model"].replace(":", ", ")[:46] for run in runs])
            facts = [f"{share:.2f} % · {show_seconds(run['seconds'])} · {show_bytes(run['peak_memory'])}"
                     for share, run in zip(shares, runs, strict=True)]  # fmt: skip
            axes.secondary_yaxis("right").set_yticks(range(len(runs)), facts)
            where = devices[0] if len(devices) == 1 else "several devices"
            axes.set(title=f"{name.removeprefix('league-')}, {where}", xlabel="accuracy, %")


def stage_bars() -> None:
    """Draw the seconds of one layer by stage."""
    lines = [run for run in read_lines("bench") if run["question"] == "speed" and "seconds_by_stage" in run]
    for name in dict.fromkeys(file_of(run) for run in lines):
        runs = [run for run in lines if file_of(run) == name]
        with figure(FIGURES / f"{name}.svg", 8, 1.2 + 0.32 * len(runs)) as axes:
            left = [0.0] * len(runs)
            for stage in dict.fromkeys(stage for run in runs for stage in run["seconds_by_stage"]):
                wide = [run["seconds_by_stage"].get(stage, 0.0) for run in runs]
                axes.barh(range(len(runs)), wide, left=left, label=stage, height=0.6)
                left = [a + b for a, b in zip(left, wide, strict=True)]
            axes.set_yticks(range(len(runs)), [" ".join(run["name"].split()) for run in runs])
            axes.invert_yaxis()
            axes.figure.legend(frameon=False, fontsize=7, ncols=8, loc="outside lower center")
            axes.set(title=f"Seconds per layer by stage, {runs[0]['device']}", xlabel="seconds")


def side_by_side() -> None:
    """Draw accuracy over training seconds: ours, and ResNet-18 by back-propagation."""
    with figure(FIGURES / "side-by-side.svg") as axes:
        for run in runs_of(file="side-by-side-cifar10"):
            epochs = next((table for other, table in gradient_runs() if other["id"] == run["id"]), None)
            if epochs is None:
                layers = layers_of(run)
                curve = pd.Series(layers["test"].to_numpy(), index=layers["seconds"].cumsum())
            else:
                curve = epochs.set_index("seconds")["test"]
            axes.plot(curve.index, 100 * curve, label=run["name"])
        axes.set_xscale("log")
        axes.set(title="CIFAR-10: test accuracy over training seconds, NVIDIA H200", xlabel="training seconds")
        axes.set_ylabel("test accuracy, %")
        axes.legend(frameon=False)


def main() -> int:
    """Draw all figures."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        for dataset in dict.fromkeys(run["dataset"] for run in runs_of(file=table)):
            curves(table, dataset)
    for draw in (equal_training_figures, ladders, leagues, stage_bars, side_by_side):
        draw()
    size = sum(file.stat().st_size for file in Path(RECORDS).rglob("*") if file.is_file())
    print(f"records, pages and figures: {size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
