"""Carry ``results/*.json`` into the README's table: no figure there is typed by hand.

python benchmarks/results_table.py          rewrite the table
python benchmarks/results_table.py --check  exit 1 if the README differs
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START, END = "<!-- results -->", "<!-- /results -->"


def rows() -> list[str]:
    """Return the table's lines, one a result with a mean test accuracy."""
    found = [
        "| dataset | layers | test accuracy | training time | device | command, commit |",
        "|---|---|---|---|---|---|",
    ]
    for file in sorted((ROOT / "results").glob("*.json")):
        result = json.loads(file.read_text())
        if isinstance(result, dict) and "test_accuracy_mean" in result:
            found.append(
                f"| {result['dataset']} ({result['protocol']}) | {result['layers']} | "
                f"**{100 * result['test_accuracy_mean']:.2f} %** ± {100 * result['test_accuracy_std']:.2f} | "
                f"{result['seconds_mean']:.1f} s | {result['device']} | `{result['command']}`, {result['commit']} |"
            )
    return found


def main() -> int:
    """Rewrite or check the README."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, rest = text.split(START)
    after = rest.split(END)[1]
    wanted = "\n".join([before + START, *rows(), END + after])
    if "--check" in sys.argv:
        return int(wanted != text)
    readme.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
