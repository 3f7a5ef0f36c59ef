"""What the precisions and a cap on the memory cost on one GPU, and what few images save on a CPU."""

from __future__ import annotations

from statistics import fmean, median
from typing import Any

from .results_files import RESULTS, not_run_yet, percent, read, source_line

LAST = 10  # layers whose accuracies are averaged: a single one swings by a few tenths of a point


def precisions() -> list[str]:
    """Return the same network trained in each precision."""
    runs = [read(file)[0] for name in ("exact", "balanced", "fast") if (file := _file(f"precision-{name}")).exists()]
    if not runs:
        return not_run_yet("python benchmarks/explore.py cifar10 benchmarks/variants/precision.json --precision exact")
    rows = [
        f"| precision | test %, last layer | test %, mean of the last {LAST} | held-out %, mean of the last {LAST} "
        "| training % | seconds a layer |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        history = run["history"]
        cells = [
            percent(history[-1]["test_accuracy"]),
            percent(fmean(layer["test_accuracy"] for layer in history[-LAST:])),
            percent(fmean(layer["validation_accuracy"] for layer in history[-LAST:])),
            percent(history[-1]["train_accuracy"]),
            f"{median(sum(layer['seconds'].values()) for layer in history[2:]):.2f}",
        ]
        rows.append(f"| {run['precision']} | {' | '.join(cells)} |")
    last = runs[-1]
    shape = f"{len(last['history'])} layers, {last['training_images']:,} training images, seed {last['seed']}"
    return [*rows, "", f"{last['dataset']}, {shape}. {source_line(last)}"]


def capped() -> list[str]:
    """Return the CIFAR-10 preset with and without a cap on the device's memory."""
    file = _file("capped-memory-h200")
    if not file.exists():
        return not_run_yet("python benchmarks/capped_memory.py --out results/capped-memory-h200.json")
    result = read(file)
    rows = ["| memory | maps | peak on the device | seconds a layer | test % at the end |", "|---|---|---|---|---|"]
    for name, run in ((f"all {_total(result)}", result["free"]), (f"{result['cap'] / 1e9:.0f} GB", result["capped"])):
        rows.append(
            f"| {name} | on the {run['plan']['maps_place']} | {run['peak_memory'] / 1e9:.1f} GB | "
            f"{run['seconds_per_layer']:.3f} | {percent(run['history'][-1]['test_accuracy'])} |"
        )
    equal = "equal bit for bit" if result["equal_networks"] else "not equal"
    layers = len(result["free"]["history"])
    return [*rows, "", f"{result['dataset']}, {layers} layers; the two networks are {equal}. {source_line(result)}"]


def few_images() -> list[str]:
    """Return layers of few images, their heads solved by rows and by the Gram matrix."""
    file = _file("few-images-cpu")
    if not file.exists():
        return not_run_yet("python benchmarks/few_images.py --out results/few-images-cpu.json")
    result = read(file)
    rows = [
        "| images | features | heads by rows | by the Gram matrix | whole layer by rows | by the Gram matrix | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in result["sizes"]:
        seconds = [size[way][part] for part in ("heads", "seconds") for way in ("rows", "gram")]
        cells = [f"{size['images']:,}", f"{size['features']:,}", *(f"{one:.2f} s" for one in seconds)]
        rows.append(f"| {' | '.join(cells)} | **{seconds[3] / seconds[2]:.1f} ×** |")
    apart = max(size["output_difference"] for size in result["sizes"])
    return [
        *rows,
        "",
        f"{result['dataset']}, medians of the layers after the first, of {result['layers']}, both ways in turns; heads "
        f"with the sums they are solved from. Outputs differ by {apart:.0e} at most. {source_line(result)}",
    ]


def _total(result: dict[str, Any]) -> str:
    return f"({result['free']['plan']['budget'] / 1e9:.0f} GB allowed)"


def _file(name: str) -> Any:
    return RESULTS / f"{name}.json"
