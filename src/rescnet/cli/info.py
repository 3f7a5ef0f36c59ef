"""``rescnet info``: facts about a model, read without its layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..base.text import count, show_bytes, show_percent, show_shape
from .shared import Json, Model, plain_table, say

if TYPE_CHECKING:
    from ..saving import ModelFolder

MOST_NUMBERS = 6  # of layers, listed one by one


def info(model: Model, as_json: Json = False) -> None:
    """Show the architecture, size, accuracy and origin of a model."""
    from ..saving import ModelFolder, partial_of

    folder = ModelFolder.open(model)
    facts: dict[str, Any] = {
        "model": str(model),
        "finished": folder.sealed,
        "layers": len(folder.records),
        "used_layers": folder.used_layers,
        "image_shape": list(folder.image_shape),
        "class_names": list(folder.class_names),
        "architecture": _architecture(folder),
        "bytes": folder.size_on_disk(),
        "accuracy": _accuracies(folder),
        "config": folder.config.to_dict(),
        "differs_from_preset": _differences(folder),
        "about": {key: value for key, value in folder.about.items() if key != "training_checksums"},
    }
    facts["parameters"] = sum(row["parameters"] * row["layers"] for row in facts["architecture"])
    facts["misses_readout"] = folder.misses_readout
    partial = partial_of(Path(model))
    facts["partial"] = str(partial) if partial.is_dir() else None
    if folder.about.get("readout"):
        facts["readout_bytes"] = folder.about["readout"]["bytes"]
        readout = folder.read_readout()
        facts["readout_images"] = len(readout) if readout else 0
        facts["readout_parameters"] = sum(tensor.numel() for tensor in readout.learned()) if readout else 0
        facts["parameters"] += facts["readout_parameters"]
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _print(Console(), facts, folder.how_to_fit_the_readout)


def _architecture(folder: ModelFolder) -> list[dict[str, Any]]:
    """Return one row per kind of layer: on the colour image alone, on the grey image alone, and on maps too."""
    config, (channels, height, width) = folder.config, folder.image_shape
    features = config.features((height, width))
    groups = len(folder.class_names) * (1 if config.head == "ridge" else 2)
    rows, numbers = [], range(1, len(folder.records) + 1)
    alone = [number for number in numbers if config.place_in_stack(number) == 1]
    coloured, grey = ([number for number in alone if config.is_grey(number) == sees] for sees in (False, True))
    others = [number for number in numbers if config.place_in_stack(number) > 1]
    for alike, depth in ((coloured, channels), (grey, channels), (others, channels + config.filters)):
        if alike:
            side = config.size_of_filter(alike[0])
            weights = config.filters * (depth * side**2 + 1)
            rows.append(
                {
                    "first": alike[0],
                    "last": alike[-1],
                    "layers": len(alike),
                    "numbers": alike,
                    "grey": alike is grey,
                    "input": [depth, height, width],
                    "filters": [config.filters, depth, side, side],
                    "features": features,
                    "head": [features, groups],
                    "parameters": weights + (features + 1) * groups,
                }
            )
    return rows


def _accuracies(folder: ModelFolder) -> dict[str, Any]:
    """Return the accuracies at the best validation depth, at the last layer and with the readout."""
    history = folder.history()
    best, last = history[history.best_layer() - 1], history[-1]
    places = {"best_on_validation": best, "last": last} if last.validation_accuracy is not None else {"last": last}
    found: dict[str, Any] = {
        place: {"layer": record.layer}
        | {split: getattr(record, f"{split}_accuracy") for split in ("train", "validation", "test")}
        for place, record in places.items()
    }
    if readout := history.readout:
        found["readout"] = {"train": None, "validation": readout.validation_accuracy, "test": readout.test_accuracy}
        found["leave_one_out"] = {"train": readout.loo_accuracy, "validation": None, "test": None}
    return found


def _differences(folder: ModelFolder) -> dict[str, Any]:
    """Return the options that differ from the preset, or from the default network if there is no preset."""
    from ..config.choices import starting_point

    readout = folder.history().readout
    facts = folder.image_shape, len(folder.class_names), None if readout is None else readout.images
    base = starting_point(folder.config, folder.about, *facts)[1].to_dict()
    return {name: value for name, value in folder.config.to_dict().items() if value != base[name]}


def _print(console: Console, facts: dict[str, Any], how_to_fit: str) -> None:
    about, classes = facts["about"], len(facts["class_names"])
    layers = count(facts["layers"], "layer", "layers")
    used = "" if facts["used_layers"] == facts["layers"] else f"; predicts with the first {facts['used_layers']}"
    state = "" if facts["finished"] else "; its run is not finished"
    say(console, f"[bold]{escape(facts['model'])}[/bold]: {layers}{used}{state}")
    say(console, f"{facts['parameters']:,} parameters, {show_bytes(facts['bytes'])} on disk")
    if partial := facts["partial"]:
        say(console, f"a run that was to replace it is in {escape(partial)}; rescnet train --resume continues it")
    if kept := facts.get("readout_images"):
        numbers = f"{facts['readout_parameters']:,} of the parameters, {show_bytes(facts['readout_bytes'])}"
        say(console, f"kernel readout with {kept:,} codes of training images: {numbers}")
    console.print()
    console.print(_architecture_table(facts["architecture"]))
    say(console, f"\n{classes} classes: {escape(_first(facts['class_names']))}\n")
    console.print(_accuracy_table(facts["accuracy"], about.get("images", {})))
    if facts["misses_readout"]:
        say(console, f"the kernel readout is missing; {how_to_fit} fits it")
    console.print()
    _print_origin(console, facts)


def _architecture_table(rows: list[dict[str, Any]]) -> Table:
    table = plain_table("layer", "input", "filters", "features", "head", "parameters")
    for row in rows:
        table.add_row(
            _which(row["numbers"]),
            show_shape(row["input"]) + (", grey" if row["grey"] else ""),
            "{0} of {2}×{3}×{1}".format(*row["filters"]),
            f"{row['features']:,}",
            "{:,}×{:,}".format(*row["head"]),
            f"{row['parameters']:,}",
        )
    return table


def _which(numbers: list[int]) -> str:
    """Return the layers of a row of the architecture, e.g. ``1, 5, … 21, each``."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return f"{first}"
    if last - first + 1 == len(numbers):
        return f"{first} to {last}, each"
    shown = ", ".join(map(str, numbers)) if len(numbers) <= MOST_NUMBERS else f"{first}, {numbers[1]}, … {last}"
    return f"{shown}, each"


def _accuracy_table(accuracy: dict[str, dict[str, Any]], images: dict[str, int]) -> Table:
    splits = [split for split in ("train", "validation", "test") if accuracy["last"][split] is not None]
    table = plain_table("accuracy at", *(f"{split} %" for split in splits))

    def add_row(title: str, row: dict[str, Any]) -> None:  # a layer learned without validation images has none
        table.add_row(title, *(show_percent(row[split]) for split in splits))

    titles = {"best_on_validation": "best validation depth", "last": "last"}
    at_layers = {place: row for place, row in accuracy.items() if place in titles}
    for layer in dict.fromkeys(row["layer"] for row in at_layers.values()):
        places = [place for place, row in at_layers.items() if row["layer"] == layer]
        add_row(f"layer {layer}, {' and '.join(titles[place] for place in places)}", accuracy[places[0]])
    if readout := accuracy.get("readout"):
        add_row("with the kernel readout", readout)
        if accuracy["leave_one_out"]["train"] is not None:
            add_row("with the kernel readout, each image left out", accuracy["leave_one_out"])
    if images:
        table.add_row("[dim]images[/dim]", *(f"[dim]{images.get(split, 0):,}[/dim]" for split in splits))
    return table


def _print_origin(console: Console, facts: dict[str, Any]) -> None:
    from ..network.history import StopReason

    about = facts["about"]
    versions = ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items())
    where = [str(about[key]) for key in ("dataset", "device", "date") if about.get(key)]
    differs = ", ".join(f"{name} {value}" for name, value in facts["differs_from_preset"].items())
    base = f"the preset {about['preset']}" if about.get("preset") else "the default network"
    for title, text in (
        ("trained on", "; ".join(where)),
        ("versions", versions),
        ("command", about.get("command")),
        ("stopped because", StopReason.early(about.get("stopped"))),
        ("settings", f"{base}, except {differs}" if differs else base),
    ):
        if text:
            say(console, f"[dim]{title:>15}[/dim]  {escape(str(text))}")


def _first(names: list[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
