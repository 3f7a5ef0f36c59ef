"""Tables of the paper beside what was measured, as Markdown rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from ..formatting import count
from .plans import Plan
from .records import seeds_together

TITLES = ("network", "published", "chosen on held-out images", "last layer", "best on the test curve", "images", "time")
WITH_READOUT = "with the kernel readout (layers)"


def titles(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the titles of the columns; there is one more if a network has a readout."""
    return [*TITLES[:2], *([WITH_READOUT] if _has_readout(entries) else []), *TITLES[2:]]


def table_rows(plan: Plan, entries: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of each experiment: what the paper reports, and ours, in percent on the test set."""
    groups, read_out = seeds_together(entries), _has_readout(entries)
    rows = []
    for experiment in plan.experiments:
        paper = "; ".join(figure.shown for figure in experiment.paper)
        found = [group for group in groups if group[0]["name"] == experiment.name]
        if not found:
            rows.append([experiment.label, paper, "not run yet", *[""] * (4 + read_out)])
        for group in found:
            entry, config = group[0], group[0]["config"]
            named = {"augment": "", "test_views": "mean of views: ", "kernel_copies": "copies in the readout: "}
            changes = [f"{words}{config[key]}" for key, words in named.items() if config.get(key)]
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


def markdown(plan: Plan, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table as Markdown, and the provenance of its figures."""
    rows = [f"| {' | '.join(titles(entries))} |", "|" + "---|" * len(titles(entries))]
    rows += [f"| {' | '.join(row)} |" for row in table_rows(plan, entries)]
    rows += ["", "Test accuracy in %, in brackets the layer. The best on the test curve is the paper's rule.", ""]
    for entry in entries:
        rows.append(f"- `{entry['name']}`: {entry['device']}, commit {entry['commit']}, `{entry['command']}`.")
    return rows


def _has_readout(entries: Sequence[Mapping[str, Any]]) -> bool:
    return any("readout" in entry["summary"] for entry in entries)


def _cell(group: Sequence[Mapping[str, Any]], which: str, more: str = "") -> str:
    """Write the mean accuracy of networks that differ in the seed, and their standard deviation."""
    found = [entry["summary"][which] for entry in group if which in entry["summary"]]
    found = [at for at in found if at["test"] is not None]
    if not found:
        return "–"  # there are no such images
    percents = [100 * at["test"] for at in found]
    deviation = f" ± {stdev(percents):.2f}" if len(percents) > 1 else ""
    layers = ", ".join(dict.fromkeys(str(at["layer"]) for at in found))
    seeds = f"; {len(found)} seeds" if len(found) > 1 else ""
    return f"**{mean(percents):.2f}**{deviation} ({layers}{more}{seeds})"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
