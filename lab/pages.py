"""Pieces of a page of the record: tables, means, run ids, caveats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import mean, stdev

import pandas as pd

from .records import Run, file_of

DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mnist": "MNIST", "tiny-imagenet": "TinyImageNet"}
Row = dict[str, str]


def markdown(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    table = pd.DataFrame(rows).fillna("").to_markdown(index=False, tablefmt="pipe", disable_numparse=True)
    return re.sub(r":?-{3,}:?", "---", re.sub(r" {2,}", " ", table))  # padding would be a third of the pages


def spread(shares: Sequence[float | None], digits: int = 2) -> str:
    """Write the mean of shares in percent, with the standard deviation where there are several."""
    percents = [100 * share for share in shares if share is not None and share == share]
    if not percents:
        return "–"
    return f"{mean(percents):.{digits}f}" + (f" ± {stdev(percents):.{digits}f}" if len(percents) > 1 else "")


def ids(runs: Sequence[Run]) -> str:
    """Write the ids of runs of one file: the file once, then the numbers."""
    files: dict[str, list[str]] = {}
    for run in runs:
        files.setdefault(file_of(run), []).append(run["id"].rsplit(".", 1)[1])
    return "; ".join(f"{name}.{', '.join(numbers)}" for name, numbers in files.items())


def caveats(runs: Sequence[Run]) -> str:
    """List the caveats of runs, each once, with the runs it is about."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run.get("caveat"):
            found.setdefault(run["caveat"], []).append(run)
    return "\n".join(f"- {ids(about)}: {text}" for text, about in found.items())


def page(title: str, *parts: str) -> str:
    """Return a page from its parts."""
    return "\n\n".join([f"# {title}", "Written by `python -m lab.tables`; do not edit.", *filter(None, parts)]) + "\n"


def at(group: Sequence[Run], which: str) -> str:
    """Write the test accuracy of runs at the depth ``which`` names, and these depths."""
    found = [run["summary"][which] for run in group if which in run["summary"]]
    found = [point for point in found if point["test"] is not None]
    if not found:
        return "–"
    layers = ", ".join(dict.fromkeys(str(point["layer"]) for point in found))
    return f"{spread([point['test'] for point in found])} ({layers})"
