"""What the last changes of ``cifar10-best`` are worth, from ``results/steps-cifar10-best.json`` and ``beyond.json``.

Entries are those of ``rescnet reproduce``; runs of equal depth, stacks, banks and readout are one row.
"""

from __future__ import annotations

from statistics import mean
from typing import Any

from rescnet import NetworkConfig

from .ablations import spread
from .results_files import RESULTS, not_run_yet, read

SAYS = {"layers": 0, "restart_every": 0, "grey_every": 0, "bank": "", "second_look": False}  # what steps differ in
NAMES = "cifar10", "cifar10-augmented"  # without flips, and with


def table() -> list[str]:
    """Return the networks in the order they were run, and where their figures come from."""
    files = [RESULTS / "steps-cifar10-best.json", RESULTS / "beyond.json"]
    runs = [run for file in files if file.exists() for run in read(file) if run["name"] in NAMES and run["readout"]]
    if not runs:
        return not_run_yet("rescnet reproduce beyond --only cifar10-augmented")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs:
        alike = tuple(run["config"].get(key, default) for key, default in SAYS.items())
        groups.setdefault((run["images"]["train"], *alike), []).append(run)
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
    seconds = f"{mean(run['seconds'] for run in flips):.0f}" if flips else "–"
    return (
        f"| {_what(group[0]['config'])} | {group[0]['images']['train']:,} | {_accuracies(plain, 'test')} | "
        f"{_accuracies(flips, 'test')} | {_accuracies(flips, 'validation')} | {seconds} | "
        f"{len({run['seed'] for run in group})} | {group[0]['commit']} |"
    )


def _accuracies(runs: list[dict[str, Any]], which: str) -> str:
    found = [run["readout"][f"{which}_accuracy"] for run in runs]
    known = [100 * accuracy for accuracy in found if accuracy is not None]
    return spread(known) if known else "–"


def _what(told: dict[str, Any]) -> str:
    """Say what a network has that the first had not."""
    config = NetworkConfig(**told)
    grey = sum(config.is_grey(layer) for layer in range(1, config.layers + 1))
    found = [f"{config.layers} layers in stacks of {config.restart_every}"]
    if grey:
        found.append(f"{grey} of them grey")
    if "|" in config.bank:
        found.append(f"the last stack of {config.bank_of(config.layers)}")
    if config.second_look:
        found.append("a second look")
    return ", ".join(found)
