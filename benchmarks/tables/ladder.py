"""From the paper's network to ours, one change a step, from ``results/ladder-*.json``: a picture and a table."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

from rescnet.experiments.charts import ladder_chart

from .ablations import spread
from .results_files import DOCS, RESULTS, not_run_yet, read


def rungs(runs: list[dict[str, Any]]) -> list[tuple[str, list[float], list[float], int]]:
    """Return the changes in the order they were made: name, held-out and test accuracies of all seeds, and the depth.

    All are read at the depth the shallowest reached, the mean of the five layers up to it; or with their readout.
    """
    runs = kept(runs)
    depth = _depth(runs)
    names = dict.fromkeys(run["name"] for run in runs)
    found = []
    for name in names:
        seeds = [run for run in runs if run["name"] == name]
        held, test = ([100 * _reached(run, which, depth) for run in seeds] for which in ("validation", "test"))
        found.append((name, held, test, depth))
    return found


def _reached(run: dict[str, Any], which: str, depth: int) -> float:
    """Return the accuracy a run came to."""
    last = [run["readout"]] if run.get("readout") else run["history"][max(0, depth - 5) : depth]
    return float(mean(record[f"{which}_accuracy"] for record in last))


def kept(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs whose change was kept."""
    return [run for run in runs if run.get("kept", True)]


def table() -> list[str]:
    """Return each ladder: its picture, and its figures with where they come from."""
    found: list[str] = []
    for file in sorted(RESULTS.glob("ladder-*.json")):
        runs = read(file)
        steps, first = rungs(runs), runs[0]
        found += [
            f"![{_title(runs)}]({file.stem}.svg)",
            "",
            "| change, kept by all below | held-out % | test % | seeds |",
            "|---|---|---|---|",
            *(f"| {name} | {spread(held)} | {spread(test)} | {len(held)} |" for name, held, test, _ in steps),
            "",
            *_left_out(runs),
            f"Means of the five layers up to layer {steps[0][3]}{_or_readout(runs)}. "
            f"{first['training_images']:,} images, {first['device']}, {_origins(runs)}.",
            "",
        ]
    return found or not_run_yet("python benchmarks/explore.py")


def pictures() -> dict[Path, str]:
    """Return the ladders drawn."""
    found = {}
    for file in sorted(RESULTS.glob("ladder-*.json")):
        runs = read(file)
        found[DOCS / f"{file.stem}.svg"] = ladder_chart(
            _title(runs), [(name, mean(held)) for name, held, _, _ in rungs(runs)]
        )
    return found


def _left_out(runs: list[dict[str, Any]]) -> list[str]:
    tried = ", ".join(run["name"] for run in runs if not run.get("kept", True))
    return [f"Tried on the way, and not kept since held-out accuracy did not rise: {tried}.", ""] if tried else []


def _origins(runs: list[dict[str, Any]]) -> str:
    """Return commits and commands; a file may have been continued."""
    found = list(dict.fromkeys((run["commit"], run["command"]) for run in runs))
    return "; then ".join(f"commit {commit}, `{command}`" for commit, command in found)


def _or_readout(runs: list[dict[str, Any]]) -> str:
    return ", or with the readout where there is one" if any(run.get("readout") for run in runs) else ""


def _depth(runs: list[dict[str, Any]]) -> int:
    return min(len(run["history"]) for run in runs)


def _title(runs: list[dict[str, Any]]) -> str:
    depth, deepest = _depth(kept(runs)), max(len(run["history"]) for run in kept(runs))
    return f"{runs[0]['dataset']}, held-out accuracy after {depth} layers{' and more' if deepest > depth else ''}"
