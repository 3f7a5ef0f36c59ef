"""A table of the paper beside what was measured, as Markdown rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .plans import Plan

TITLES = ("network", "paper", "chosen on held-out images", "last layer", "best on the test curve", "images", "time")


def table_rows(plan: Plan, entries: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return one row an experiment of the plan: what the paper reports, and the three figures of ours.

    All in percent on the test set. "Best on the test curve" is the paper's own rule and no honest choice; it is there
    for comparison.
    """
    found = {entry["name"]: entry for entry in entries}
    rows = []
    for experiment in plan.experiments:
        paper = "; ".join(f"{figure.accuracy:g} ({figure.layers}, {figure.what})" for figure in experiment.paper)
        entry = found.get(experiment.name)
        if entry is None:
            rows.append([experiment.label, paper, "not run yet", "", "", "", ""])
            continue
        summary = entry["summary"]
        unfinished = "" if entry["finished"] else ", unfinished"
        rows.append(
            [
                experiment.label,
                paper,
                _cell(summary.get("chosen")),
                _cell(summary["last"], unfinished),
                _cell(summary.get("paper_rule")),
                f"{entry['images']['train']:,}{' and mirrored' if entry['config'].get('augment') == 'flip' else ''}",
                _time(entry["seconds"]),
            ]
        )
    return rows


def markdown(plan: Plan, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table as Markdown, and where its figures come from."""
    rows = [f"| {' | '.join(TITLES)} |", "|" + "---|" * len(TITLES)]
    rows += [f"| {' | '.join(row)} |" for row in table_rows(plan, entries)]
    rows += ["", "Test accuracy in %, in brackets the layer."]
    for entry in entries:
        rows.append(f"`{entry['name']}`: {entry['device']}, commit {entry['commit']}, `{entry['command']}`.")
    return rows


def _cell(at: Mapping[str, Any] | None, more: str = "") -> str:
    if at is None or at["test"] is None:
        return "–"
    return f"**{100 * at['test']:.2f}** ({at['layer']}{more})"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
