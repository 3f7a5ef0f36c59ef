"""The paper's tables beside what ``rescnet reproduce`` measured, and Table 2's other half beside ``neighbours``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from rescnet.experiments.reproduce.plans import load_plan, plan_names
from rescnet.experiments.reproduce.plots import curves, datasets
from rescnet.experiments.reproduce.records import seeds_together
from rescnet.experiments.reproduce.tables import NOT_CHOSEN, markdown, mean_and_deviation, table_rows
from rescnet.network.depth import NO_TRAINING_ERROR

from . import league, neighbours
from .results_files import RESULTS, not_run_yet, read

PAPER = tuple(name for name in plan_names() if name != "beyond")
DATASETS = ("cifar10", "cifar100", "mnist", "tiny-imagenet")


def entries(name: str) -> list[dict[str, Any]]:
    """Return what was run of a table, as far as it is there."""
    file = RESULTS / f"{name}.json"
    return read(file) if file.exists() else []


def table(name: str) -> list[str]:
    """Return a table and its plots, or what to run for it."""
    plan, found = load_plan(name), entries(name)
    if not found:
        return not_run_yet(f"rescnet reproduce {name}")
    plots = [f"![{plan.title}: {d}](../results/{name}-{d}.svg)" for d in datasets(plan, found)]
    return [*markdown(plan, found), *[line for plot in plots for line in ("", plot)]]


def pictures() -> dict[Path, str]:
    """Return the plots, beside the results they are drawn from."""
    found = {}
    for name in plan_names():
        plan, run = load_plan(name), entries(name)
        for dataset in datasets(plan, run):
            found[RESULTS / f"{name}-{dataset}.svg"] = curves(plan, run, dataset)
    return found


def summary_rows() -> list[str]:
    """Return rows for the README's table: Table 2 and Table 4, of each network the runs that saw the most images.

    Other readings are left out, but for a preset's network at another depth.
    """
    rows = []
    for name in ("table2", "table4"):
        found = _with_most_images(entries(name))
        for experiment in load_plan(name).experiments:
            seeds = found.get(experiment.name)
            another_depth = not experiment.preset and set(experiment.changes) == {"layers"}
            if seeds is None or (experiment.another_reading and not another_depth):
                continue
            if name == "table4" and not seeds[0]["config"].get("augment"):
                continue  # a network of Table 2 again
            entry = seeds[0]
            held, seen = entry["images"].get("validation"), entry["images"]["train"]
            layers = ", ".join(dict.fromkeys(str(_at(seed)["layer"]) for seed in seeds))
            fixed = _depth(entry, _at(entry)["layer"], [figure.layers for figure in experiment.paper])
            how = f"depth chosen on {held:,} held-out images" if held else f"all {seen:,} images, {fixed}"
            origin = "; ".join(f"`{seed['command']}`, {seed['commit']}" for seed in seeds)
            stopped = "" if all(seed.get("finished", True) for seed in seeds) else ", stopped before its end"
            seconds, depth = (mean(seed[fact] for seed in seeds) for fact in ("seconds", "layers"))
            time = f"{seconds / 60:.1f} min for {depth:.0f} layers{stopped}"
            paper = max(figure.accuracy for figure in experiment.paper)
            what, accuracy = f"{experiment.label} ({how}; the paper: {paper:g} %)", _accuracy(seeds, " %") or "–"
            rows.append(f"| {what} | {layers} | {accuracy} | {time} | {entry['device']} | {origin} |")
    return rows


def _depth(entry: Mapping[str, Any], layer: int, papers: list[int]) -> str:
    """Return what a depth is that no held-out images chose in the same run."""
    if not entry.get("finished", True):
        return f"to layer {layer}"
    if entry.get("stopped") == NO_TRAINING_ERROR:
        return "until no training image was wrong"
    return "to the paper's depth" if layer in papers else "depth fixed before"


def headline() -> list[str]:
    """Return the README's first table: our best networks, how long they took, and the best figures we know beside."""
    plan = load_plan("beyond")
    best = tuple(experiment for experiment in plan.experiments if experiment.preset.endswith("-best"))
    plan = replace(plan, experiments=best)
    found = [entry for entry in entries("beyond") if entry["name"] in {experiment.name for experiment in best}]
    if not found:
        return not_run_yet("rescnet reproduce beyond")
    rows = [
        "| dataset | test % (layers) | training images | trained in | beside it, test % (layers) |",
        "|---|---|---|---|---|",
    ]
    for label, others, *figures, images, time in table_rows(plan, found):
        *readout, chosen, last, _ = figures
        accuracy = next(cell for cell in (*readout, chosen, last) if cell != NOT_CHOSEN)
        rows.append(f"| {label} | {accuracy} | {images or '–'} | {time or '–'} | {others} |")
    devices, commits = ({entry[fact] for entry in found} for fact in ("device", "commit"))
    where = f"{', '.join(sorted(devices))}, commit {', '.join(sorted(commits))}"
    return [*rows, "", f"`rescnet reproduce beyond`, {where}; each command is [in the docs](docs/beyond.md)."]


def both_halves() -> list[str]:
    """Return Table 2 whole: every network as published, and beside it, in bold, what was measured here."""
    ours = _with_most_images(entries("table2"))
    rows = [
        "| network | trained with | CIFAR-10 | CIFAR-100 | MNIST | TinyImageNet |",
        "|---|---|---|---|---|---|",
        f"| ResCNet | closed form | {' | '.join(_ours(ours.get(d, []), d) for d in DATASETS)} |",
    ]
    for network in load_plan("table2").published:
        cells = []
        for dataset in DATASETS:
            published = network["accuracy"].get(dataset)
            measured = league.measured(network.get("member"), dataset)
            measured = measured or neighbours.measured(network.get("neighbour"), dataset)
            cells.append(f"{published if published is not None else '–'}{f' · **{measured}**' if measured else ''}")
        rows.append(f"| {network['name']} | {network['kind']} | {' | '.join(cells)} |")
    rows += [
        "",
        "As published; after the dot, in bold, as measured here: ResCNet with all training images, at the paper's "
        "depth, on MNIST where no training image is wrong; members of the family as chosen on held-out images, or as "
        "their preset has them; networks with gradients at the epoch chosen on held-out images.",
    ]
    return rows


def _with_most_images(found: list[dict[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return each network's runs by its name, one a seed: those that learnt from the most images."""
    by_images = sorted(seeds_together(found), key=lambda seeds: int(seeds[0]["images"]["train"]))
    return {seeds[0]["name"]: seeds for seeds in by_images}


def _at(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layer to quote: the one chosen on held-out images, or the last."""
    found: dict[str, Any] = entry["summary"].get("chosen") or entry["summary"]["last"]
    return found


def _accuracy(seeds: Sequence[Mapping[str, Any]], unit: str = "") -> str:
    """Write the test accuracy of a network, or the mean of its seeds and their deviation; nothing if it has none."""
    tests = [_at(entry)["test"] for entry in seeds if _at(entry)["test"] is not None]
    if not tests:
        return ""
    return mean_and_deviation(tests, unit) + (f" ({len(tests)} seeds)" if len(tests) > 1 else "")


def _ours(seeds: Sequence[Mapping[str, Any]], dataset: str) -> str:
    plan = next(e for e in load_plan("table2").experiments if e.dataset == dataset)
    published, measured = f"{max(figure.accuracy for figure in plan.paper):g}", _accuracy(seeds)
    return f"{published} · {measured}" if measured else published
