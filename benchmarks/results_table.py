"""Carry ``results/*.json`` into the README and the docs: no figure there is typed by hand.

python benchmarks/results_table.py          rewrite the tables
python benchmarks/results_table.py --check  exit 1 if a table differs
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def accuracies() -> list[str]:
    """Return the table of results with a mean test accuracy."""
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


def memory_growth() -> list[str]:
    """Return the table of peak memory against the number of images."""
    result = json.loads((ROOT / "results/memory-growth.json").read_text())
    found = ["| images | maps, in a file | peak of the process | seconds a layer |", "|---|---|---|---|"]
    for run in result["runs"]:
        seconds = sum(run["history"][-1]["seconds"].values())
        maps, peak = run["plan"]["maps_bytes"] / 1e6, run["peak_memory"] / 1e6
        found.append(f"| {run['images']:,} | {maps:,.0f} MB | **{peak:.0f} MB** | {seconds:.0f} |")
    found.append(
        f"\n{result['dataset']}, {result['device']}, torch {result['versions']['torch']}, commit {result['commit']}, "
        f"`{result['command']}`."
    )
    return found


def workers() -> list[str]:
    """Return the table of one worker and two."""
    result = json.loads((ROOT / "results/workers.json").read_text())
    stages = list(result["runs"][0]["seconds_by_stage"])
    found = [f"| workers | **seconds a layer** | {' | '.join(stages)} | exchanged a layer |"]
    found.append("|---|---|" + "---|" * (len(stages) + 1))
    for run in result["runs"]:
        seconds = " | ".join(f"{value:.2f}" for value in run["seconds_by_stage"].values())
        found.append(f"| {run['workers']} | **{run['seconds']:.2f}** | {seconds} | {run['exchanged'] / 1e6:.0f} MB |")
    found.append(
        f"\n{result['dataset']}, {result['device']}, torch {result['versions']['torch']}, commit {result['commit']}, "
        f"`{result['command']}`."
    )
    return found


def imagenet() -> list[str]:
    """Return the arithmetic of ImageNet on many GPUs."""
    rows = json.loads((ROOT / "results/workers.json").read_text())["imagenet"]
    found = ["| a layer, each worker | " + " | ".join(f"{row['workers']} GPUs" for row in rows) + " |"]
    found.append("|---|" + "---|" * len(rows))
    lines: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("images", lambda row: f"{row['images']:,}"),
        ("maps, float16, on the host", lambda row: f"{row['maps_bytes'] / 1e9:.1f} GB"),
        ("outputs", lambda row: f"{row['output_bytes'] / 1e9:.2f} GB"),
        ("Gram matrix", lambda row: f"{row['gram_bytes'] / 1e9:.2f} GB"),
        ("heads of one layer", lambda row: f"{row['heads_bytes_a_layer'] / 1e6:.0f} MB"),
        *(
            (f"operations: {name}", lambda row, name=name: f"{row['operations'][name] / 1e12:.1f} T")
            for name in rows[0]["operations"]
        ),
        ("exchanged", lambda row: f"{row['exchanged'] / 1e6:.0f} MB"),
        ("bandwidth assumed", lambda row: f"{row['bandwidth_assumed'] / 1e9:.0f} GB/s"),
        ("seconds: over images, scaled from one H200", lambda row: f"{row['seconds_growing']:.2f}"),
        ("seconds: heads, on the first", lambda row: f"{row['seconds_heads']:.2f}"),
        ("seconds: exchange", lambda row: f"{row['seconds_exchange']:.3f}"),
    ]
    return found + [f"| {name} | {' | '.join(show(row) for row in rows)} |" for name, show in lines]


def carry(file: Path, mark: str, rows: list[str]) -> str:
    """Return a page's text with the table between its marks replaced."""
    start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, rest = file.read_text().split(start)
    return "\n".join([before + start, *rows, end + rest.split(end)[1]])


def main() -> int:
    """Rewrite the pages, or check them."""
    pages = [
        (ROOT / "README.md", "results", accuracies()),
        (ROOT / "docs/performance.md", "layer-times", layer_times()),
    ]
    pages += [
        (ROOT / "docs/scaling.md", mark, rows)
        for mark, rows in (("memory-growth", memory_growth()), ("workers", workers()), ("imagenet", imagenet()))
    ]
    stale = 0
    for file, mark, rows in pages:
        wanted = carry(file, mark, rows)
        stale += wanted != file.read_text()
        if "--check" not in sys.argv:
            file.write_text(wanted)
    return int(stale > 0 and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
