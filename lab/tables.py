"""Write the pages of the record: one Markdown page per question, the short tables of ``docs``, and expected times.

python -m lab.tables          write them
python -m lab.tables --check  exit 1 if one of them is stale
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pandas as pd

from .best import headline, published, times
from .other_pages import (
    choices_page,
    digits_page,
    family_page,
    gradients_page,
    memory_page,
)
from .pages import Row, at, caveats, ids, markdown, network_rows, page, spread
from .questions import QUESTIONS, TABLES, TIMES, load_question
from .records import RECORDS, Run, file_of, layers_of, runs_of
from .speed import few_images_times, layer_times, speed_page

ROOT = Path(__file__).resolve().parent.parent
PAGES, DOCS = RECORDS / "pages", ROOT / "docs"
APART = ("seed", "layers")  # options that make no other reading


# The paper's tables, and what goes beyond them


def paper_page(name: str) -> str:
    """Return a table of the paper beside all runs of it."""
    question, runs = load_question(name), runs_of(name)
    note = "Test accuracy in %, in brackets the layer. The best on the test curve is the paper's rule, no honest one."
    return page(question.title, note, markdown(network_rows(question, runs)), "## Caveats", caveats(runs))


# Readings side by side


def comparison_page(question: str, title: str) -> str:
    """Return one table per file of a question: every reading at one depth, compared with the file's first run."""
    runs = runs_of(question)
    parts = []
    for name in dict.fromkeys(file_of(run) for run in runs):
        parts += [f"## {name}", comparison([run for run in runs if file_of(run) == name])]
    return page(title, *parts)


def comparison(runs: Sequence[Run]) -> str:
    """Return a table of runs at the depth all reached, the best on validation images first."""
    runs = [run for run in runs if run.get("layers")]
    base = runs[0]["options"]
    usual = median(run["layers"] for run in runs)
    depth = min(run["layers"] for run in runs if run["layers"] >= usual / 2)
    groups: dict[str, list[Run]] = {}
    for run in runs:
        key = json.dumps({k: v for k, v in run["options"].items() if k not in APART}, sort_keys=True)
        groups.setdefault(key, []).append(run)
    rows = []
    for everyone in groups.values():
        group = [run for run in everyone if run["layers"] >= depth] or everyone
        reached = [layers_of(run).iloc[min(depth, run["layers"]) - 1] for run in group]
        readouts = [run["readout"] for run in group if run.get("readout")]
        order = [r["validation_accuracy"] for r in readouts] or [r["validation"] for r in reached]
        changed = {k: v for k, v in group[0]["options"].items() if base.get(k) != v and k not in APART}
        changed |= {k: "default" for k in base if k not in group[0]["options"] and k not in APART}
        row = {
            "reading": group[0]["name"],
            "options": ", ".join(f"{key} {value}" for key, value in changed.items()) or "the base",
            "layers": str(max(run["layers"] for run in group)),
            f"validation % at {depth}": spread([r["validation"] for r in reached]),
            f"training % at {depth}": spread([r["train"] for r in reached]),
            f"test % at {depth}": spread([r["test"] for r in reached]),
            "test % at the depth chosen": at(group, "chosen"),
        }
        if any(run.get("readout") for run in runs):
            row["readout, validation %"] = spread([r["validation_accuracy"] for r in readouts])
            row["readout, test %"] = spread([r["test_accuracy"] for r in readouts])
        rows.append((-fmean(v or 0 for v in order), row | {"seeds": str(len(group)), "runs": ids(group)}))
    images = runs[0].get("training_images")
    facts = [runs[0]["dataset"], f"{images:,} training images" if images else "", runs[0]["device"]]
    intro = f"{', '.join(filter(None, facts))}, commit {runs[0]['commit']}."
    notes = caveats(runs)
    return "\n\n".join(filter(None, [intro, markdown([row for _, row in sorted(rows, key=lambda r: r[0])]), notes]))


def equal_training() -> dict[str, dict[str, Any]]:
    """Return which runs are compared at equal training accuracy, by data set."""
    return tomllib.loads((QUESTIONS / "equal-training.toml").read_text())


def validation_at(points: pd.DataFrame, training: float, near: float = 0.25) -> float | None:
    """Return the mean validation accuracy of the layers near a training accuracy, all in percent."""
    width = min(near, (100 - training) / 2)
    found = points[(points["train"] * 100 - training).abs() <= width + 1e-9]["validation"].dropna()
    return None if found.empty else float(100 * found.mean())


def equal_training_page() -> str:
    """Return validation accuracies at equal training accuracy: what a reading is worth once its speed is taken out."""
    parts = [
        "Validation accuracy in %, mean of layers whose training accuracy is within 0.25 of the column's, or within "
        "half of what it lacks to 100. 45,000 images, one seed, stride 4 unless a row says otherwise."
    ]
    known = {run["id"]: run for run in runs_of()}
    for about in equal_training().values():
        rows = []
        for reading in about["runs"]:
            points = layers_of(known[reading["run"]])
            cells = {f"{t:g}": validation_at(points, t) for t in about["trainings"]}
            shown = {f"train {t} %": "–" if v is None else f"{v:.2f}" for t, v in cells.items()}
            rows.append({"reading": reading["name"], **shown, "run": reading["run"]})
        parts += [f"## {about['label']}", markdown(rows)]
    return page("Readings at equal training accuracy", *parts)


def ladder_page() -> str:
    """Return the steps from the paper's network to ours."""
    parts = []
    for name in ("ladder-cifar10-best", "ladder-cifar10"):
        runs = [run for run in runs_of(file=name) if run.get("kept", True)]
        rows = [
            {"change, kept by all below": n, "validation %": spread([v]), "test %": spread([t]), "run": i}
            for n, v, t, i in rungs(runs)
        ]
        parts += [f"## {name}", markdown(rows), caveats(runs)]
    note = "Mean of the last five layers at the depth of the shallowest step, or with the readout where there is one."
    return page("From the paper's network to ours", note, *parts)


def rungs(runs: Sequence[Run]) -> list[tuple[str, float, float, str]]:
    """Return name, validation and test accuracy and id of each step."""
    depth = min(run["layers"] for run in runs)
    found = []
    for run in runs:
        last = layers_of(run).iloc[max(0, depth - 5) : depth]
        shares = {split: float(last[split].mean()) for split in ("validation", "test")}
        if readout := run.get("readout"):
            shares = {split: readout[f"{split}_accuracy"] for split in shares}
        found.append((run["name"], shares["validation"], shares["test"], run["id"]))
    return found


# The short tables of docs


def against_paper() -> str:
    """Return the paper's figures beside ours with all training images, at the last layer."""
    wanted = [("table2", "cifar10"), ("table2", "cifar10-deeper"), ("table2", "cifar100"), ("table2", "mnist")]
    wanted += [("table2", "tiny-imagenet"), ("table4", "cifar10-flips"), ("table4", "cifar100-flips")]
    wanted += [("table4", "tiny-imagenet-flips"), ("table3", "rate-1"), ("table3", "rate-0.4")]
    wanted += [("figure2", "filters-30"), ("figure2", "filters-50")]
    rows = []
    for table, name in wanted:
        found = [run for run in runs_of(table) if run["name"] == name]
        most = max(run["images"]["train"] for run in found)
        group = [run for run in found if run["images"]["train"] == most]
        question = load_question(table)
        paper = max((e for e in question.experiments if name.startswith(e.name)), key=lambda e: len(e.name)).paper
        best = max(paper, key=lambda figure: figure.accuracy)
        rows.append(
            {
                "": f"{question.title.split(':')[0]}: {group[0]['label']}",
                "paper, best on the test curve %": f"{best.accuracy:g} ({best.layers})",
                "ours, last layer %": at(group, "last"),
                "ours, chosen on validation images %": at(group, "chosen"),
                "training images": f"{most:,}",
                "seeds": str(len(group)),
                "runs": ids(group),
            }
        )
    return markdown(rows)


def family_short() -> str:
    """Return the family on the test images of CIFAR-10, MNIST and Fashion-MNIST: the best row of each member."""
    sets = {"league-cifar10": "CIFAR-10", "league-mnist": "MNIST", "league-fashion-mnist": "Fashion-MNIST"}
    rows: dict[str, Row] = {}
    for file, label in sets.items():
        for run in runs_of(file=file):
            if run.get("accuracy") and label not in rows.get(run["model"].split(":")[0], {}):
                member = run["model"].split(":")[0]
                published = f" ({100 * run['published']:.2f})" if run.get("published") else ""
                rows.setdefault(member, {"member": member})[label] = f"{100 * run['accuracy']:.2f}{published}"
    order = sorted(rows.values(), key=lambda row: row.get("CIFAR-10", "0"), reverse=True)
    return markdown([{key: row.get(key, "–") for key in ("member", *sets.values())} for row in order])


PAGE_WRITERS: dict[str, Callable[[], str]] = {
    **{name: lambda name=name: paper_page(name) for name in TABLES},
    **{
        name: lambda name=name, title=title: comparison_page(name, title)
        for name, title in {
            "readings": "Open readings of the paper",
            "cells": "Maxima or means of cells",
            "ridges": "Ridges and learning rates",
            "posteriors": "Posteriors and scores",
            "signs": "Signs of PCA filters, sides of a draw",
            "flips": "Ridges with flips",
            "few-images": "Few images",
            "directions": "Directions beyond the paper",
            "readout": "The kernel readout",
        }.items()
    },
    "equal-training": equal_training_page,
    "ladder": ladder_page,
    "family": family_page,
    "family-choices": choices_page,
    "gradients": gradients_page,
    "speed": speed_page,
    "memory": memory_page,
    "digits": digits_page,
}
BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "results.md": {"headline": headline, "paper": against_paper, "family": family_short},
    "performance.md": {"layers": layer_times, "resnet": few_images_times},
    "records.md": {group: lambda group=group: published(group) for group in ("none", "local", "kernels")},
}


def carry(text: str, mark: str, table: str) -> str:
    """Return a text with the block between the marks replaced."""
    start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, rest = text.split(start)
    return f"{before}{start}\n{table}\n{end}{rest.split(end)[1]}"


def main() -> int:
    """Write the pages, or check them."""
    wanted = {PAGES / f"{name}.md": write() for name, write in PAGE_WRITERS.items()}
    new = dict.fromkeys(run["question"] for run in runs_of() if run.get("layers") and run["kind"] == "network")
    for name in (name for name in new if name not in {*PAGE_WRITERS, "precision", "gradients"}):
        wanted[PAGES / f"{name}.md"] = comparison_page(name, name)
    wanted[TIMES] = times()
    for name, tables in BLOCKS.items():
        text = (DOCS / name).read_text()
        for mark, table in tables.items():
            text = carry(text, mark, table())
        wanted[DOCS / name] = text
    stale = [file for file, text in wanted.items() if not file.exists() or file.read_text() != text]
    if "--check" in sys.argv:
        for file in stale:
            print(f"{file.relative_to(ROOT)} is stale. Run python -m lab.tables.")
        return int(bool(stale))
    PAGES.mkdir(parents=True, exist_ok=True)
    for file in stale:
        file.write_text(wanted[file])
    return 0


if __name__ == "__main__":
    sys.exit(main())
