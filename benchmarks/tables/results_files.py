"""What the tables share: where results are, how they are read, and what is said where there are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS, DOCS = ROOT / "results", ROOT / "docs"


def read(file: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(file.read_text())


def not_run_yet(command: str) -> list[str]:
    """Return what stands in place of a table whose results are not there."""
    return [f"*Not run yet: `{command}`.*"]


def source_line(result: dict[str, Any]) -> str:
    """Return where a table comes from, in one line."""
    torch = result["versions"]["torch"]
    return f"{result['device']}, torch {torch}, commit {result['commit']}, `{result['command']}`."


def percent(share: float | None, digits: int = 2) -> str:
    """Write a share of 1 for people."""
    return "–" if share is None else f"{100 * share:.{digits}f}"
