"""Our best networks: their short table, the tables of records, and the times that ``lab.reproduce`` expects."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from statistics import mean
from typing import Any

from .pages import Row, ids, markdown, spread
from .questions import TABLES, load_question
from .records import Run, runs_of

PUBLISHED = Path(__file__).resolve().parent / "published.toml"
DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
DATASETS |= {"tiny-imagenet": "TinyImageNet"}


def best_runs(name: str) -> list[Run]:
    """Return the runs of one of our best networks."""
    return [run for file in ("beyond", "records") for run in runs_of(file=file) if run["name"] == name]


def times() -> str:
    """Return seconds, layers and device of the newest finished runs, by plan and experiment, for ``reproduce``."""
    found: dict[str, dict[str, list[Any]]] = {}
    for table in TABLES:
        for name in (experiment.name for experiment in load_question(table).experiments):
            runs = best_runs(name) if table == "beyond" else [r for r in runs_of(table) if r["name"] == name]
            if runs := newest([run for run in runs if run.get("finished") and run.get("seconds")]):
                seconds = round(mean(run["seconds"] for run in runs), 1)
                found.setdefault(table, {})[name] = [seconds, runs[-1]["layers"], runs[-1]["device"]]
    return json.dumps(found, indent=1) + "\n"


def newest(runs: list[Run]) -> list[Run]:
    """Return the runs that have the options of the last one; seeds may differ."""
    options = [{key: value for key, value in run["options"].items() if key != "seed"} for run in runs]
    return [run for run, found in zip(runs, options, strict=True) if found == options[-1]]


def headline() -> str:
    """Return our best networks beside published figures."""
    rows = []
    for experiment in load_question("records").experiments:
        group = newest([run for run in best_runs(experiment.name) if run["options"]["readout"] == "kernel"])
        if not group:
            continue
        rows.append(
            {
                "data set": experiment.label,
                "test %": spread([run["summary"]["readout"]["test"] for run in group]),
                "seconds": f"{mean(run['seconds'] for run in group):.0f} s",
                "layers": str(group[-1]["layers"]),
                "published %": "; ".join(figure.shown for figure in experiment.paper),
                "runs": ids(group),
            }
        )
    return markdown(rows)


def published(group: str) -> str:
    """Return the published figures of a group of methods; our newest runs stand above those without gradients."""
    rows = (
        [_ours("none", ""), _ours("flips; CIFAR: a shifted, jittered copy; MNIST: rotations", "-augmented")]
        if group == "none"
        else []
    )
    for entry in tomllib.loads(PUBLISHED.read_text())[group]:
        figures = {name: f"{entry[key]:g}" if key in entry else "–" for key, name in DATASETS.items()}
        facts = {"augmentation": entry["augmentation"], "compute": entry["compute"], "source": entry["source"]}
        rows.append({"method": entry["name"], **figures, "others": entry.get("other", ""), **facts})
    if not any(row["others"] for row in rows):
        rows = [{key: value for key, value in row.items() if key != "others"} for row in rows]
    return markdown(rows)


def _ours(augmentation: str, ending: str) -> Row:
    """Return our row: one of our best networks per set."""
    found = {name: newest(best_runs(name + ending)) for name in DATASETS if best_runs(name + ending)}
    accuracies = {name: spread([run["summary"]["readout"]["test"] for run in runs]) for name, runs in found.items()}
    seconds = [mean(run["seconds"] for run in runs) for runs in found.values()]
    return {
        "method": "**rescnet**, our best presets",
        **{title: accuracies.get(name, "–") for name, title in DATASETS.items()},
        "others": "",
        "augmentation": augmentation,
        "compute": f"{min(seconds):.0f} to {max(seconds):.0f} s on one {found['cifar10'][0]['device']}",
        "source": ids([run for runs in found.values() for run in runs]),
    }
