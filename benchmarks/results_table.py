"""Carry ``results/*.json`` into the README and the docs: no figure there is typed by hand.

python benchmarks/results_table.py          rewrite the tables and the pictures
python benchmarks/results_table.py --check  exit 1 if a table or a picture differs
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
from tables import (  # its charts are in the package, which need not be installed
    ablations,
    bench,
    equal_training,
    fast_path,
    ladder,
    last_steps,
    league,
    neighbours,
    reproduction,
    scaling,
    side_by_side,
)

ROOT = Path(__file__).resolve().parent.parent


def accuracies() -> list[str]:
    """Return the table of results with a mean test accuracy."""
    found = [
        "| dataset | layers | test accuracy | training time | device | command, commit |",
        "|---|---|---|---|---|---|",
        *reproduction.summary_rows(),
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


def layer_times() -> list[str]:
    """Return the table of a layer's seconds by stage."""
    found: list[str] = []
    for file in sorted((ROOT / "results").glob("layer-times-*.json")):
        for run in json.loads(file.read_text()):
            stages = run["seconds_by_stage"]
            if not found:
                found = [f"| preset, precision | D | **whole layer** | {' | '.join(stages)} | peak |"]
                found.append("|---|---|---|" + "---|" * (len(stages) + 1))
            seconds = " | ".join(f"{value:.3f}" for value in stages.values())
            name, peak = " ".join(run["name"].split()), f"{run['peak_memory'] / 1e9:.0f} GB"
            found.append(f"| {name} | {run['features']:,} | **{run['seconds']:.3f} s** | {seconds} | {peak} |")
        found.append(
            f"\n{run['device']}, torch {run['versions']['torch']}, commit {run['commit']}, `{run['command']}`."
        )
    return found


def carry(file: Path, mark: str, rows: list[str]) -> str:
    """Return a page's text with the table between its marks replaced."""
    start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, rest = file.read_text().split(start)
    return "\n".join([before + start, *rows, end + rest.split(end)[1]])


def main() -> int:
    """Rewrite the pages, or check them."""
    pages = [
        (ROOT / "README.md", "headline", reproduction.headline()),
        (ROOT / "README.md", "results", accuracies()),
        (ROOT / "docs/performance.md", "layer-times", layer_times()),
        (ROOT / "docs/performance.md", "bench", bench.stages()),
        (ROOT / "docs/performance.md", "heads", bench.heads()),
        (ROOT / "docs/performance.md", "few-images", fast_path.few_images()),
        (ROOT / "docs/performance.md", "side-by-side", side_by_side.table()),
        (ROOT / "docs/performance.md", "precisions", fast_path.precisions()),
        (ROOT / "docs/performance.md", "capped", fast_path.capped()),
        (ROOT / "docs/reproduction.md", "table2-others", reproduction.both_halves()),
        *(
            (ROOT / "docs/ablations.md", f"equal-training-{name}", equal_training.table(of))
            for name, of in equal_training.comparisons().items()
        ),
        (ROOT / "docs/ablations.md", "ablations", ablations.tables("explore-*.json")),
        *((ROOT / "docs/reproduction.md", name, reproduction.table(name)) for name in reproduction.PAPER),
        (ROOT / "docs/beyond.md", "beyond", reproduction.table("beyond")),
        (ROOT / "docs/beyond.md", "ladder", ladder.table()),
        (ROOT / "docs/beyond.md", "last-steps", last_steps.table()),
        (ROOT / "docs/beyond.md", "directions", ablations.tables("beyond-*.json")),
        (ROOT / "docs/family.md", "league", league.tables()),
        (ROOT / "docs/family.md", "neighbours", neighbours.table()),
        *((ROOT / "docs/scaling.md", mark, rows) for mark, rows in scaling.tables().items()),
    ]
    stale = 0
    for file, text in (
        bench.pictures()
        | side_by_side.pictures()
        | reproduction.pictures()
        | ladder.pictures()
        | equal_training.pictures()
        | league.pictures()
    ).items():
        stale += not file.exists() or file.read_text() != text
        if "--check" not in sys.argv:
            file.write_text(text)
    for file, mark, rows in pages:
        wanted = carry(file, mark, rows)
        stale += wanted != file.read_text()
        if "--check" not in sys.argv:
            file.write_text(wanted)
    return int(stale > 0 and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
