"""Pieces of a page of the record: tables, means, run ids, caveats."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from statistics import mean, stdev

from .questions import Question
from .records import Run, file_of

DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mnist": "MNIST", "tiny-imagenet": "TinyImageNet"}
Row = dict[str, str]


def markdown(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    titles = list(dict.fromkeys(title for row in rows for title in row))
    lines = [titles, *([row.get(title, "") for title in titles] for row in rows)]
    head, *rest = (f"| {' | '.join(cell.strip() for cell in line)} |" for line in lines)
    return re.sub(r" {2,}", " ", "\n".join([head, "|" + "---|" * len(titles), *rest]))


def spread(shares: Sequence[float | None], digits: int = 2) -> str:
    """Write the mean of shares in percent, with the standard deviation where there are several."""
    percents = [100 * share for share in shares if share is not None and share == share]
    if not percents:
        return "–"
    return f"{mean(percents):.{digits}f}" + (f" ± {stdev(percents):.{digits}f}" if len(percents) > 1 else "")


def ids(runs: Sequence[Run]) -> str:
    """Write the ids of runs of one file: the file once, then the numbers."""
    files: dict[str, list[str]] = {}
    for run in (run for run in runs if "id" in run):
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


def seeds(runs: Sequence[Run]) -> list[list[Run]]:
    """Return runs of one name, number of images and options together, whatever their seed."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        options = {key: value for key, value in run["options"].items() if key != "seed"}
        groups.setdefault(json.dumps([run["name"], run["images"], options, file_of(run)]), []).append(run)
    return list(groups.values())


def network_rows(question: Question, runs: Sequence[Run]) -> list[Row]:
    """Return a row per network of a question that was run, beside what the paper reports.

    There is a column of the readout if a network has one, and one of ids if the runs are of the record.
    """
    published = {e.name: "; ".join(figure.shown for figure in e.paper) for e in question.experiments}
    rows = []
    for group in sorted(seeds(runs), key=lambda g: (g[0]["dataset"], g[0]["name"], g[0]["images"]["train"])):
        run = group[0]
        known = max((n for n in published if run["name"] == n or run["name"].startswith(f"{n}-")), key=len, default="")
        augmented = run["options"].get("augment") or run["options"].get("kernel_copies", "")
        rows.append(
            {
                "network": run["label"],
                "published": published.get(known, "–"),
                "readout": at(group, "readout"),
                "chosen on validation images": at(group, "chosen"),
                "last layer": at(group, "last") + ("" if all(r["finished"] for r in group) else ", unfinished"),
                "best on the test curve": at(group, "paper_rule"),
                "images": f"{run['images']['train']:,}{f', {augmented}' if augmented else ''}",
                "minutes": f"{mean(r['seconds'] for r in group) / 60:.1f}",
                "seeds": str(len(group)),
                "runs": ids(group),
            }
        )
    empty = {
        title for title, without in (("readout", "–"), ("runs", "")) if not any(row[title] != without for row in rows)
    }
    return [{title: cell for title, cell in row.items() if title not in empty} for row in rows]
