"""Draw the figures of the record with matplotlib.

python -m lab.figures

They are written to ``lab/records/figures``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from rescnet.experiments.compare import Row
from rescnet.experiments.plans import load_plan
from rescnet.experiments.presentation import draw_league, figure, thin

from .other_pages import gradient_runs
from .records import RECORDS, Run, file_of, layers_of, read_lines, runs_of
from .tables import equal_training, rungs, validation_at

FIGURES = RECORDS / "figures"
MOST = 6  # lines per figure


def curves(table: str, dataset: str) -> None:
    """Draw test accuracy over layers of a table's runs on one data set: all images first, then the deepest."""
    plan = load_plan(table)
    runs: dict[tuple[str, int], Run] = {}
    for run in sorted(runs_of(table), key=lambda r: (-r["images"]["train"], -r["layers"], r["seed"])):
        if run["dataset"] == dataset and file_of(run) == table:
            runs.setdefault((run["name"], run["images"]["train"]), run)
    wanted = {e.name: e for e in plan.experiments}
    drawn = sorted(runs.values(), key=lambda r: (r["name"] not in wanted, -r["images"]["train"]))[:MOST]
    with figure(FIGURES / f"{table}-{dataset}.svg") as axes:
        for number, run in enumerate(drawn):
            points = layers_of(run)[["layer", "test", "train"]].to_numpy()
            x, test, train = zip(*thin(list(points), 80), strict=True)
            label = f"{run['label']}, {run['images']['train']:,} images"
            axes.plot(x, [100 * share for share in test], color=f"C{number}", label=label, linewidth=1.2)
            axes.plot(x, [100 * share for share in train], "--", color=f"C{number}", linewidth=0.7)
            if readout := run["summary"].get("readout"):
                axes.plot(run["layers"], 100 * readout["test"], "*", color=f"C{number}", markersize=11)
        marks = {(f.layers, f.accuracy) for e in plan.experiments if e.dataset == dataset for f in e.paper if f.layers}
        for place in sorted(marks):
            axes.plot(*place, "kD", markersize=5)
            axes.annotate(f"paper {place[1]:g}", place, (4, 4), textcoords="offset points", fontsize=8)
        best = max(100 * r["summary"]["last"]["test"] for r in drawn)
        axes.set_ylim(best - 1.5 * (100 - best), 100 + 0.05 * (100 - best))
        axes.set(title=f"{plan.title}: {dataset}", xlabel="layers", ylabel="accuracy, %: test, and dashed training")
        axes.legend(frameon=False, fontsize=7)


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
    """Draw the family on each data set with test images."""
    for name in ("league-cifar10", "league-mnist", "league-fashion-mnist"):
        runs = runs_of(file=name)
        rows = [
            Row(r["model"], r.get("accuracy"), seconds=r.get("seconds", 0), peak_memory=r.get("peak_memory", 0),
                published=None if "--limit" in r["command"] else r.get("published"))
            for r in runs
        ]  # fmt: skip
        devices = sorted({r["device"] for r in runs if r.get("accuracy")})
        where = devices[0] if len(devices) == 1 else "several devices"
        draw_league(FIGURES / f"{name}.svg", rows, f"{name.removeprefix('league-')}, {where}")


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
    for table in ("table2", "table3", "table4", "figure2", "beyond"):
        for dataset in dict.fromkeys(run["dataset"] for run in runs_of(file=table)):
            curves(table, dataset)
    for draw in (equal_training_figures, ladders, leagues, stage_bars, side_by_side):
        draw()
    size = sum(file.stat().st_size for file in Path(RECORDS).rglob("*") if file.is_file())
    print(f"records, pages and figures: {size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
