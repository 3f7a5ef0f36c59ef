"""Readings of the paper side by side, from what ``explore.py`` wrote: at equal depth, seeds averaged.

A file holds runs of one data set, and its first run is the base the others are compared with. Runs that differ in
nothing but the seed are one row: their mean, and the standard deviation over seeds; seeds cut short before the depth
all are compared at do not count where another one reached it.
"""

from __future__ import annotations

import json
from statistics import mean, median, stdev
from typing import Any

from .results_files import RESULTS, not_run_yet, read

APART = ("seed", "layers")  # options that make no other reading


def tables(files: str) -> list[str]:
    """Return one table a file of results, named by a pattern."""
    found: list[str] = []
    for file in sorted(RESULTS.glob(files)):
        runs = [run for run in _runs(read(file)) if run.get("history")]
        if runs:
            found += ["", f"## {file.stem}", "", *file_table(runs)]
    return found[1:] or not_run_yet("python benchmarks/explore.py")


def file_table(runs: list[dict[str, Any]]) -> list[str]:
    """Return the table of one file's runs, the best on held-out images first."""
    base = runs[0]["config"]
    depth = equal_depth([len(run["history"]) for run in runs])
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(json.dumps({k: v for k, v in run["config"].items() if k not in APART}), []).append(run)
    varied = sorted({key for run in runs for key in differences(run["config"], base)})
    read_out = any(run.get("readout") for run in runs)
    rows = []
    for seeds in groups.values():
        deep = [run for run in seeds if len(run["history"]) >= depth]
        reached, group = [run["history"][depth - 1] for run in deep], deep or seeds
        held = [100 * r["validation_accuracy"] for r in reached if r["validation_accuracy"] is not None]
        test = [100 * r["test_accuracy"] for r in reached if r["test_accuracy"] is not None]
        changed = differences(group[0]["config"], base)
        settings = changed or {key: base[key] for key in varied if key in base}
        layers = max(len(run["history"]) for run in group)
        last = [best_on_held_out(run["history"]) for run in group]
        cells = [
            group[0]["name"],
            f"{'' if changed else 'the base: '}{', '.join(f'{k} {v}' for k, v in settings.items()) or '–'}",
            str(layers),
            spread(held),
            spread([100 * r["train_accuracy"] for r in reached]),
            spread(test),
            spread([100 * r["test_accuracy"] for r in last if r["test_accuracy"] is not None])
            + f" ({', '.join(str(r['layer']) for r in last)})",
            str(len(group)),
        ]
        order = -mean(held) if held else 0.0
        if read_out:
            readouts = [run["readout"] for run in group if run.get("readout")]
            held, test = (
                [100 * r[f"{split}_accuracy"] for r in readouts if r[f"{split}_accuracy"] is not None]
                for split in ("validation", "test")
            )
            cells[2:2] = [spread(held), spread(test)]
            order = -mean(held) if held else 0.0
        rows.append((order, f"| {' | '.join(cells)} |"))
    first = runs[0]
    titles = ["reading", "what differs", "layers", f"held-out % at layer {depth}", "training % there", "test % there"]
    titles += ["test % at the depth chosen (layer)", "seeds"]
    if read_out:
        titles[2:2] = ["held-out % with the readout", "test % with it"]
    return [
        f"{first['dataset']}, {first['device']}, commit {first['commit']}, `{first['command']}`.",
        "",
        f"| {' | '.join(titles)} |",
        "|" + "---|" * len(titles),
        *(row for _, row in sorted(rows)),
    ]


def equal_depth(lengths: list[int]) -> int:
    """Return the depth all runs reached, but for those that ended before half of what is usual."""
    usual = median(lengths)
    return min(length for length in lengths if length >= usual / 2)


def differences(config: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """Return the options in which a run differs from the base; options only one of them knows are left out."""
    return {k: v for k, v in config.items() if k in base and base[k] != v and k not in APART}


def best_on_held_out(history: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the record with the best held-out accuracy, the earliest of equals; the last where none is known."""
    known = [record for record in history if record["validation_accuracy"] is not None]
    return max(known, key=lambda r: (r["validation_accuracy"], -r["layer"])) if known else history[-1]


def spread(values: list[float]) -> str:
    """Write a mean, with the standard deviation where there are several."""
    if not values:
        return "–"
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def _runs(content: Any) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else [content]
