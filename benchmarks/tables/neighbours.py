"""The networks trained by back-propagation: what was measured, wherever a run was kept."""

from __future__ import annotations

from typing import Any

from rescnet.experiments.reproduce.plans import load_plan

from .results_files import RESULTS, not_run_yet, percent, read, source_line

COMMAND = "python benchmarks/neighbours/train_all.py cifar10 --out results/neighbours-cifar10.json"


def runs() -> list[dict[str, Any]]:
    """Return every run without augmentation: single ones, those one after the other, those side by side with ours."""
    found = [read(file) for file in sorted(RESULTS.glob("neighbour-*.json"))]
    for file in sorted(RESULTS.glob("neighbours-*.json")):
        found += read(file)
    for file in sorted(RESULTS.glob("side-by-side-*.json")):
        both = read(file)
        theirs = both["neighbour"]
        if "network" in theirs:
            found.append({**both, "name": theirs["network"], "config": theirs["recipe"], "history": theirs["history"]})
    return [run for run in found if run["history"] and not run["config"].get("flips")]


def chosen(run: dict[str, Any]) -> dict[str, Any]:
    """Return the epoch with the best held-out accuracy, the later of equals; without such, the last."""
    return max(run["history"], key=lambda record: (record.get("validation_accuracy", 0.0), record["epoch"]))


def measured(network: str | None, dataset: str) -> str | None:
    """Return a network's test accuracy at the epoch chosen."""
    for run in runs():
        if (run["name"], run["dataset"]) == (network, dataset):
            return percent(chosen(run)["test_accuracy"])
    return None


def table() -> list[str]:
    """Return what each came to, in how many seconds, beside what its paper says."""
    published = {row["neighbour"]: row for row in load_plan("table2").published if "neighbour" in row}
    rows = ["| network | set | test % | at the end | published | epochs | training seconds | parameters of the run |"]
    rows.append("|---|---|---|---|---|---|---|---|")
    sources = []
    for run in runs():
        best, last, paper = chosen(run), run["history"][-1], published[run["name"]]
        config = run["config"]
        how = f"batch {config['batch']}, rate {config['learning_rate']:g}, decay {config['weight_decay']:g}"
        cells = [
            paper["name"],
            run["dataset"],
            f"**{percent(best['test_accuracy'])}** (epoch {best['epoch']})",
            percent(last["test_accuracy"]),
            str(paper["accuracy"].get(run["dataset"], "–")),
            str(last["epoch"]),
            f"{last['seconds']:.0f}",
            how,
        ]
        rows.append(f"| {' | '.join(cells)} |")
        if (line := source_line(run)) not in sources:
            sources.append(line)
    if len(rows) == 2:
        return not_run_yet(COMMAND)
    return [*rows, "", *sources]
