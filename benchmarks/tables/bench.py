"""What ``rescnet bench`` measured: seconds by stage, the heads beside scikit-learn's, and a picture of the stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rescnet.experiments.charts import stacked_bars

from .results_files import DOCS, RESULTS, not_run_yet, percent, read, source_line

HEADS = "bench-heads-"


def layer_files() -> list[Path]:
    """Return the files with the stages of layers."""
    return [file for file in sorted(RESULTS.glob("bench-*.json")) if not file.name.startswith(HEADS)]


def stages() -> list[str]:
    """Return one table a machine: seconds of each stage, and in brackets the share the ceilings would need of them."""
    found: list[str] = []
    for file in layer_files():
        runs = read(file)
        names = list(runs[0]["seconds_by_stage"])
        found += ["", f"**{runs[0]['device']}** ({file.name}):", ""]
        found.append(f"| preset, precision | D | **layer** | at the ceilings | {' | '.join(names)} | peak |")
        found.append("|---|---|---|---|" + "---|" * (len(names) + 1))
        found += [_row(run, names) for run in runs]
        ceilings = runs[0]["ceilings"]
        products = ", ".join(f"{name} {rate / 1e12:.3g}" for name, rate in ceilings.items() if name != "copy")
        found.append(f"\nCeilings: {products} TFLOP/s; copy {ceilings['copy'] / 1e9:,.3g} GB/s. {runs[0]['protocol']}.")
        found.append(source_line(runs[0]))
        found += ["", f"![seconds by stage]({file.stem}.svg)"]
    return found[1:] or not_run_yet("rescnet bench --out results/bench-gpu.json")


def _row(run: dict[str, Any], names: list[str]) -> str:
    least = sum(stage["least_seconds"] for stage in run["stages"].values())
    cells = []
    for name in names:
        seconds, known = run["seconds_by_stage"].get(name, 0.0), run["stages"].get(name)
        share = f" ({100 * known['least_seconds'] / known['seconds']:.0f} %)" if known else ""
        cells.append(f"{seconds:.3f}{share}")
    return (
        f"| {run['name']} | {run['features']:,} | **{run['seconds']:.3f} s** | {least:.3f} s | {' | '.join(cells)} | "
        f"{run['peak_memory'] / 1e9:.1f} GB |"
    )


def heads() -> list[str]:
    """Return the table of heads, ours and scikit-learn's."""
    found: list[str] = []
    for file in sorted(RESULTS.glob(f"{HEADS}*.json")):
        result = read(file)
        found += ["", f"{result['dataset'][0].upper()}{result['dataset'][1:]}.", ""]
        found += ["| head | seconds | against ours | in CPU time | held-out accuracy |", "|---|---|---|---|---|"]
        for head in result["heads"]:
            against = f"{head['ratio']:.2f} × {head['compared_with']}" if head["ratio"] != 1 else "1"
            cells = f"{head['seconds']:.2f} | {against} | {head['cpu_ratio']:.2f} × | {percent(head['accuracy'])} %"
            found.append(f"| {head['name']} | {cells} |")
        found += ["", source_line(result)]
    return found[1:] or not_run_yet("rescnet bench --heads --out results/bench-heads-cpu.json")


def pictures() -> dict[Path, str]:
    """Return the stages of every machine as bars."""
    found = {}
    for file in [*layer_files(), *sorted(RESULTS.glob("layer-times-*.json"))]:
        runs = read(file)
        rows = {" ".join(run["name"].split()): _whole(run) for run in runs}
        found[DOCS / f"{file.stem}.svg"] = stacked_bars(f"Seconds of one layer by stage, {runs[0]['device']}", rows)
    return found


def _whole(run: dict[str, Any]) -> dict[str, float]:
    """Return the stages and what passes between them, so that a bar is as long as the layer takes."""
    stages: dict[str, float] = run["seconds_by_stage"]
    return {**stages, "between": max(0.0, run["seconds"] - sum(stages.values()))}
