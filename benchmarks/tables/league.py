"""The leagues: a table for each data set, and what a member has in one."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from rescnet.experiments.compare import Row, draw_league

from .results_files import RESULTS, not_run_yet, percent, read

TITLES = "model", "accuracy", "published", "seconds", "CPU seconds", "peak memory", "size", "commit"


def tables() -> list[str]:
    """Return a table for each league, best first; what failed comes last, with the reason."""
    found: list[str] = []
    for file in _files():
        rows = read(file)
        shared = {key: sorted({str(row[key]) for row in rows}) for key in ("protocol", "train_images", "device")}
        several = len(shared["device"]) > 1
        device = ", on the devices in the last column" if several else f", on {shared['device'][0]}"
        titles = [*TITLES, *(["device"] if several else [])]
        found += [
            f"### {_name(file)}",
            "",
            f"Measured on {' or '.join(shared['protocol'])}, {' or '.join(shared['train_images'])} images to learn "
            f"from{device}.{_at_once(rows)}",
            "",
            f"| {' | '.join(titles)} |",
            "|" + "---|" * len(titles),
            *(_row(row, several) for row in sorted(rows, key=lambda row: -(row["accuracy"] or 0))),
            "",
        ]
    return found or not_run_yet("rescnet compare --out results/league-digits.json")


def pictures() -> dict[Path, str]:
    """Return the plots of the leagues, but for those of a few images, beside them."""
    found = {file: read(file) for file in _files()}
    return {
        file.with_suffix(".svg"): picture(rows, _name(file)) for file, rows in found.items() if not _is_partial(rows[0])
    }


def picture(rows: list[dict[str, Any]], name: str) -> str:
    """Return the plot of a league, from the rows of its file, league-NAME."""
    names = {field.name for field in fields(Row)}
    drawn = [Row(**{key: value for key, value in row.items() if key in names}) for row in rows]
    devices = {row["device"] for row in rows if row["accuracy"] is not None}
    return draw_league(drawn, f"{name}, {devices.pop() if len(devices) == 1 else 'on several devices'}")


def _files() -> list[Path]:
    return sorted(RESULTS.glob("league-*.json"), key=lambda file: file.stem)


def _name(file: Path) -> str:
    return file.stem.removeprefix("league-")


def _row(row: dict[str, Any], with_device: bool) -> str:
    if row["accuracy"] is None:
        cells = [row["model"], row["error"], "", "", "", "", ""]
    else:
        spread = "" if row["deviation"] is None else f" ± {percent(row['deviation'])}"
        cells = [
            row["model"],
            f"**{percent(row['accuracy'])} %**{spread}",
            "" if row["published"] is None or _is_partial(row) else f"{percent(row['published'])} %",
            f"{row['seconds']:.1f}",
            f"{row['cpu_seconds']:.1f}",
            f"{row['peak_memory'] / 1e9:.2f} GB",
            f"{row['model_bytes'] / 1e6:.2f} MB",
        ]
    return f"| {' | '.join([*cells, row['commit'], *([row['device']] if with_device else [])])} |"


def _at_once(rows: list[dict[str, Any]]) -> str:
    most = max(row.get("at_once", 1) for row in rows)
    return f" Up to {most} members ran at once, so seconds may be longer than alone." if most > 1 else ""


def _is_partial(row: dict[str, Any]) -> bool:
    return "--limit" in row["command"]


def measured(member: str | None, dataset: str) -> str | None:
    """Return a member's accuracy on the test images after learning from all training images, where a league has it.

    Of several rows of a member the first counts: what was chosen on held-out images stands there.
    """
    for file in _files():
        for row in read(file):
            whole = row["protocol"] == "test images" and not _is_partial(row) and row["accuracy"] is not None
            if whole and (row["model"].split(":")[0], row["dataset"]) == (member, dataset):
                return percent(row["accuracy"])
    return None
