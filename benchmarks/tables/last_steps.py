"""What the last changes of ``cifar10-best`` are worth, from ``results/steps-cifar10-best.json`` and ``beyond.json``.

Entries are those of ``rescnet reproduce``; runs that differ in seed and flips alone are one row.
"""

from __future__ import annotations

from statistics import mean
from typing import Any

from .ablations import spread
from .results_files import RESULTS, not_run_yet, percent, read

SAYS = ("layers", "restart_every", "grey_every", "bank", "second_look")  # options that steps differ in
NAMES = "cifar10", "cifar10-augmented"  # without flips, and with


def table() -> list[str]:
    """Return the networks in the order they were run, and where their figures come from."""
    file = RESULTS / "steps-cifar10-best.json"
    if not file.exists():
        return not_run_yet("rescnet reproduce beyond --only cifar10-augmented")
    runs = [*read(file), *(run for run in read(RESULTS / "beyond.json") if run["name"] in NAMES)]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["images"]["train"], *(str(run["config"].get(key)) for key in SAYS)), []).append(run)
    return [
        "| network | images | test % | test %, flips | held-out %, flips | seconds, flips | seeds | commit |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(group) for group in groups.values()),
        "",
        f"{runs[0]['device']}; "
        + "; ".join(f"{group[0]['commit']}: `{group[0]['command']}` and so on" for group in groups.values())
        + ".",
    ]


def _row(group: list[dict[str, Any]]) -> str:
    plain, flips = ([run for run in group if run["name"] == name] for name in NAMES)
    held = [run["readout"]["validation_accuracy"] for run in flips]
    return (
        f"| {_what(group[0]['config'])} | {group[0]['images']['train']:,} | {_tests(plain)} | {_tests(flips)} | "
        f"{percent(held[0])} | {mean(run['seconds'] for run in flips):.0f} | {len(flips)} | {group[0]['commit']} |"
    )


def _tests(runs: list[dict[str, Any]]) -> str:
    return spread([100 * run["readout"]["test_accuracy"] for run in runs]) if runs else "–"


def _what(config: dict[str, Any]) -> str:
    """Say what a network has that the first had not."""
    every, stack = config.get("grey_every", 0), config["restart_every"]
    found = [f"{config['layers']} layers in stacks of {stack}"]
    if every:
        found.append(f"{min(stack, config['layers'] - (every - 1) * stack)} of them grey")
    if "patches" in config["bank"]:
        found.append("the last stack of drawn patches")
    if config.get("second_look"):
        found.append("a second look")
    return ", ".join(found)
