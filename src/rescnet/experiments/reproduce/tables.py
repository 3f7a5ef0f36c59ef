"""A table of the paper beside what was measured, as Markdown rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from ...formatting import count
from .plans import Plan
from .records import seeds_together

TITLES = ("network", "published", "chosen on held-out images", "last layer", "best on the test curve", "images", "time")
WITH_READOUT = "with the kernel readout (layers)"
NOT_CHOSEN = "–"  # no images were held out


def table_rows(plan: Plan, entries: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return one row an experiment of the plan: what the paper reports, and the three figures of ours.

    All in percent on the test set. "Best on the test curve" is the paper's own rule and no honest choice; it is there
    for comparison.
    """
    groups = seeds_together(entries)
    read_out = has_readout(entries)
    rows = []
    for experiment in plan.experiments:
        paper = "; ".join(figure.shown for figure in experiment.paper)
        found = [group for group in groups if group[0]["name"] == experiment.name]
        if not found and not experiment.another_reading:
            rows.append([experiment.label, paper, "not run yet", *[""] * (4 + read_out)])
        for group in found:
            entry, config = group[0], group[0]["config"]
            changes = [config["augment"]] if config.get("augment") else []
            changes += [f"mean of views: {config['average']}"] if config.get("average") else []
            changes += [f"copies in the readout: {config['kernel_copies']}"] if config.get("kernel_copies") else []
            layers = round(mean(seed["layers"] for seed in group))
            unfinished = "" if all(seed["finished"] for seed in group) else ", unfinished"
            rows.append(
                [
                    experiment.label,
                    paper,
                    *([_cell(group, "readout")] if read_out else []),
                    _cell(group, "chosen"),
                    _cell(group, "last", unfinished),
                    _cell(group, "paper_rule"),
                    "; ".join([f"{entry['images']['train']:,}", *changes]),
                    f"{_time(mean(seed['seconds'] for seed in group))} for {count(layers, 'layer', 'layers')}"
                    f"{' and the readout' if 'readout' in entry['summary'] else ''}",
                ]
            )
    return rows


def titles(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table's titles: one more where some network has a readout."""
    return [*TITLES[:2], *([WITH_READOUT] if has_readout(entries) else []), *TITLES[2:]]


def has_readout(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether some network has a readout."""
    return any("readout" in entry["summary"] for entry in entries)


def markdown(plan: Plan, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table as Markdown, and where its figures come from."""
    rows = [f"| {' | '.join(titles(entries))} |", "|" + "---|" * len(titles(entries))]
    rows += [f"| {' | '.join(row)} |" for row in table_rows(plan, entries)]
    rows += ["", "Test accuracy in %, in brackets the layer."]
    for entry in entries:
        rows.append(f"`{entry['name']}`: {entry['device']}, commit {entry['commit']}, `{entry['command']}`.")
    return rows


def mean_and_deviation(shares: Sequence[float], unit: str = "") -> str:
    """Write the mean of shares of 1, in percent and bold, and their deviation where there are several."""
    percents = [100 * share for share in shares]
    deviation = f" ± {stdev(percents):.2f}" if len(percents) > 1 else ""
    return f"**{mean(percents):.2f}{unit}**{deviation}"


def _cell(group: Sequence[Mapping[str, Any]], which: str, more: str = "") -> str:
    """Write the accuracy of one network, or the mean of those that differ in the seed, with their deviation."""
    found = [entry["summary"][which] for entry in group if which in entry["summary"]]
    found = [at for at in found if at["test"] is not None]
    if not found:
        return NOT_CHOSEN
    layers = ", ".join(dict.fromkeys(str(at["layer"]) for at in found))
    seeds = f"; {len(found)} seeds" if len(found) > 1 else ""
    return f"{mean_and_deviation([at['test'] for at in found])} ({layers}{more}{seeds})"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
