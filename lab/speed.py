"""Tables of time: seconds per layer and stage, of whole runs, and beside ResNet-18."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rescnet import preset_names

from .best import best_runs, newest
from .pages import Row, caveats, ids, markdown, page, spread
from .records import Run, file_of, layers_of, read_lines, runs_of


def speed_page() -> str:
    """Return what a layer costs, by device."""
    lines = read_lines("bench")
    parts = []
    for name in dict.fromkeys(file_of(run) for run in lines if run["question"] == "speed"):
        runs = [run for run in lines if file_of(run) == name]
        if "heads" in runs[0]:
            rows = [
                {
                    "head": head["name"],
                    "seconds": f"{head['seconds']:.2f}",
                    "ratio": f"{head['ratio']:.2f} × {head['compared_with']}",
                    "CPU ratio": f"{head['cpu_ratio']:.2f}",
                    "accuracy %": f"{100 * head['accuracy']:.2f}",
                }
                for head in runs[0]["heads"]
            ]
        else:
            rows = [
                {
                    "preset, precision": " ".join(run["name"].split()),
                    "features": f"{run['features']:,}",
                    "seconds per layer": f"{run['seconds']:.3f}",
                    **{stage: f"{seconds:.3f}" for stage, seconds in run["seconds_by_stage"].items()},
                    "peak": f"{run['peak_memory'] / 1e9:.1f} GB",
                }
                for run in runs
            ]
        where = f"{runs[0]['device']}, torch {runs[0]['versions']['torch']}, commit {runs[0]['commit']}."
        parts += [f"## {name}", where, markdown(rows), caveats(runs[:1])]
    return page("Seconds per layer", *parts, "## precision", precision_table(), caveats(runs_of("precision")[:1]))


def layer_times() -> str:
    """Return the seconds of one layer by stage: of bench, then of whole runs of our presets with all images."""
    rows, single = [], {}
    for run in read_lines("bench"):
        if file_of(run) in ("bench-h200", "bench-cpu", "bench-x86") and "cells" not in run["name"]:
            single[file_of(run), run["name"].removesuffix(f" {run['precision']}")] = run  # the newest
    for (_, network), run in single.items():
        images = sum(int(word) for word in run["dataset"].split() if word.isdigit())
        readouts = [run["readout_seconds"]] if run.get("readout_seconds") else []
        rows.append(_times_row(network, images, run["seconds"], run["seconds_by_stage"], [run], readouts))
    for preset in (name for name in preset_names() if name.endswith("-best")):
        whole = [run for run in best_runs(preset.removesuffix("-best")) if "validation" not in run["images"]]
        if runs := newest(whole):
            stages = {
                s: median(r["seconds_by_stage"][s] / r["layers"] for r in runs) for s in runs[0]["seconds_by_stage"]
            }
            readouts = [run["readout"]["seconds"] for run in runs if run["options"].get("readout") == "kernel"]
            images, layer = sum(runs[0]["images"].values()), sum(stages.values())
            rows.append(_times_row(preset, images, layer, stages, runs, readouts))
    return markdown(sorted(rows, key=lambda row: (row["device"].startswith("CPU"), row["network"].strip("`"))))


def _times_row(
    network: str, images: int, layer: float, stages: dict[str, float], runs: list[Run], readouts: Sequence[float] = ()
) -> Row:
    shown = ("filters", "convolution", "pooling", "moments", "heads")
    return {
        "network": f"`{network}`",
        "images": f"{images:,}",
        "layer": f"**{layer:.3f} s**",
        **{stage: f"{stages[stage]:.3f}" for stage in shown},
        "others": f"{layer - sum(stages[stage] for stage in shown):.3f}",
        "readout": f"{median(readouts):.1f} s" if readouts else "–",
        "device": runs[0]["device"],
        "commit": runs[0]["commit"],
        "runs": ids(runs),
    }


def few_images_times() -> str:
    """Return test accuracies and seconds of the default network beside ResNet-18, by images per class."""
    rows: dict[int, Row] = {}
    lines = [line for line in read_lines("bench") if file_of(line) == "curve"]
    for run in (run for line in lines for run in line["runs"]):  # later ones replace earlier ones
        row = rows.setdefault(run["images_per_class"], {"images per class": f"{run['images_per_class']:,}"})
        row |= {f"{run['model']} %": f"{100 * run['test_accuracy']:.2f}", f"{run['model']} s": f"{run['seconds']:.1f}"}
    return markdown(list(rows.values()))


def precision_table() -> str:
    """Return the same network trained in each precision."""
    rows = []
    for run in runs_of("precision"):
        layers = layers_of(run)
        last = layers.iloc[-10:]
        rows.append(
            {
                "precision": run["precision"],
                "test %, last layer": spread([layers.iloc[-1]["test"]]),
                "test %, last ten": spread([last["test"].mean()]),
                "validation %, last ten": spread([last["validation"].mean()]),
                "seconds per layer": f"{layers['seconds'].iloc[2:].median():.2f}",
                "run": run["id"],
            }
        )
    return markdown(rows)
