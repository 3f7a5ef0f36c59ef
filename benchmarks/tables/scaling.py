"""The tables of docs/scaling.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .results_files import RESULTS, ROOT, not_run_yet, read


def tables() -> dict[str, list[str]]:
    """Return all of them, by their marks."""
    return {"memory-growth": memory_growth(), "workers": workers(), "imagenet": imagenet()}


def memory_growth() -> list[str]:
    """Return the table of peak memory against the number of images."""
    file = RESULTS / "memory-growth.json"
    if not file.exists():
        return not_run_yet("python benchmarks/memory_growth.py")
    result = read(file)
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
