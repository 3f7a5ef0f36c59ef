"""Facts about a model for its report: figures, accuracy curves, time, memory, and options compared with the preset."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from typing import Any

from ..base.intervals import left_out_interval, wilson_interval
from ..base.text import show_bytes, show_seconds
from ..config.choices import starting_point
from ..config.network import NetworkConfig
from ..data import Dataset
from ..model import Model
from ..network.history import StopReason
from .evaluation import Evaluation

UNNAMED = "unnamed images"
ACCURACY_TOLERANCE = 0.0005  # a larger difference between measured and recorded accuracy gets a note

STAGES = {
    "scaling": "finding the range of the layer's input",
    "filters": "learning the filters from patches",
    "residual": "computing labels and signs from the residuals",
    "convolution": "convolving the maps with the filters",
    "pooling": "second-order pooling and the pyramid",
    "moments": "summing the features and their products",
    "heads": "factorising once and solving all heads",
    "update": "adding the correction to the outputs",
}


def summarise(model: Model, dataset: Dataset | None, evaluation: Evaluation | None) -> dict[str, Any]:
    """Return the title, the figures of the first screen, and the facts about the training."""
    network, lengthy = model.network, ("readout", "training_checksums", "training_files")
    about = {key: value for key, value in model.about.items() if key not in lengthy}
    name = str(about.get("dataset") or (dataset.name if dataset else "") or UNNAMED)
    seconds = seconds_of(model)
    return {
        "name": name,
        "classes": list(model.class_names),
        "layers": len(network.layers),
        "image": list(network.image_shape),
        "best_depth": best_depth(model),
        "stopped": StopReason.early(model.history.stopped or about.get("stopped")),
        "notes": notes(model, evaluation),
        "left_out": left_out(model),
        "parameters": network.parameters,
        "size": show_bytes(network.nbytes),
        "used": network.used_layers,
        "time": show_seconds(sum(seconds.values())) if seconds else None,
        "seconds": seconds,
        "about": about_rows(about),
    }


def left_out(model: Model) -> dict[str, Any] | None:
    """Return the leave-one-out accuracy of the training images, with its interval; None if it is not known."""
    if model.history.left_out is None:
        return None
    accuracy, images = model.history.left_out
    return {"accuracy": accuracy, "images": images, "interval": left_out_interval(accuracy, images)}


def seconds_of(model: Model) -> dict[str, float]:
    """Return the seconds of the parts of the training that are known."""
    history = model.history
    parts = {
        "layers": sum(record.total_seconds for record in history),
        "readout": history.readout.seconds if history.readout else 0.0,
    }
    return {name: round(seconds, 4) for name, seconds in parts.items() if seconds}


def best_depth(model: Model) -> int | None:
    """Return the depth with the best validation accuracy, or None without validation images."""
    return None if model.history[0].validation_accuracy is None else model.history.best_layer()


def accuracy_curves(model: Model, evaluation: Evaluation | None) -> dict[str, list[float]]:
    """Return accuracy per layer for each recorded split. The evaluation replaces the record of its split."""
    curves: dict[str, list[float]] = {}
    for split in ("train", "validation", "test"):
        values = [getattr(record, f"{split}_accuracy") for record in model.history]
        if None not in values:
            curves[split] = [float(value) for value in values]
    if evaluation:
        curves[evaluation.split] = evaluation.accuracy
    return curves


def accuracy_intervals(
    model: Model, curves: Mapping[str, list[float]], evaluation: Evaluation | None
) -> dict[str, list[list[float]]]:
    """Return the 95 % intervals of the accuracy curves, per layer, for splits whose number of images is known."""
    images = dict(model.about.get("images") or {})
    if evaluation:
        images[evaluation.split] = len(evaluation.labels)
    return {
        split: [[round(end, 5) for end in wilson_interval(share, images[split])] for share in curve]
        for split, curve in curves.items()
        if images.get(split) and split != "train"
    }


def notes(model: Model, evaluation: Evaluation | None) -> list[str]:
    """Return notes on the figures: layers that are not used, other images than in training, a kernel readout."""
    network, history, found = model.network, model.history, []
    trained, used = len(network.layers), network.used_layers
    if used < trained:
        found.append(f"The network was trained to {trained} layers. Predictions use the first {used}.")
    if network.readout is not None:
        record = history.readout
        known = () if record is None else (("validation", record.validation_accuracy), ("test", record.test_accuracy))
        shares = [f"{100 * share:.2f} % ({name})" for name, share in known if share is not None]
        accuracy = f" With it, training recorded an accuracy of {' and '.join(shares)}." if shares else ""
        found.append(f"A kernel readout follows layer {used}. Curves per layer are without it.{accuracy}")
    if evaluation:
        split = evaluation.split
        recorded, measured = getattr(history[used - 1], f"{split}_accuracy"), evaluation.accuracy[used - 1]
        if recorded is not None and abs(recorded - measured) > ACCURACY_TOLERANCE:
            found.append(
                f"Training recorded an accuracy of {100 * recorded:.2f} % on its {split} images after layer {used}. It "
                f"is {100 * measured:.2f} % on the {len(evaluation.labels):,} images of this report."
            )
    return found


def about_rows(about: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    """Return the facts about the training as pairs of name and value; nested entries are flattened."""
    rows: list[list[str]] = []
    for key, value in about.items():
        name = prefix + str(key).replace("_", " ")
        if isinstance(value, Mapping):
            rows += about_rows(value, f"{name}: ")
        elif value is not None and value != "":
            rows.append([name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)])
    return rows


def training_record(model: Model) -> dict[str, Any]:
    """Return signs, steps, seconds per stage, memory and increased ridges, per layer of the network."""
    records = model.history.records
    names = dict.fromkeys(stage for record in records for stage in record.seconds)
    totals = {name: sum(record.seconds.get(name, 0.0) for record in records) for name in names}
    ridge = model.network.config.ridge
    return {
        "positive": [round(layer.positive_share, 4) for layer in model.network.layers],
        "rate": [round(layer.rate, 5) for layer in model.network.layers],
        "stages": [
            {
                "name": name,
                "meaning": STAGES.get(name, ""),
                "total": round(totals[name], 4),
                "seconds": [round(record.seconds.get(name, 0.0), 4) for record in records],
                "memory": max(record.memory.get(name, 0) for record in records),
            }
            for name in sorted(names, key=lambda name: -totals[name])
        ],
        "memory": [record.peak_memory for record in records],
        "ridge": ridge,
        "retries": [[record.layer, record.ridge] for record in records if record.ridge > ridge * (1 + 1e-9)],
    }


def settings(model: Model, name: str) -> dict[str, Any]:
    """Return every option with its meaning and its value in the preset, and the training command."""
    config, readout = model.network.config, model.history.readout
    facts = model.network.image_shape, len(model.class_names), None if readout is None else readout.images
    preset, base = starting_point(config, model.about, *facts)
    rows = [
        {
            "name": entry.name,
            "value": _show_value(getattr(config, entry.name)),
            "base": _show_value(getattr(base, entry.name)),
            "differs": getattr(config, entry.name) != getattr(base, entry.name),
            "meaning": entry.metadata["help"],
        }
        for entry in dataclasses.fields(NetworkConfig)
    ]
    command = model.about.get("command")
    return {
        "base": f"the preset {preset}" if preset else "the default network",
        "rows": rows,
        "command": command or rebuilt_command(config, base, preset, name),
        "rebuilt": not command,
    }


def rebuilt_command(config: NetworkConfig, base: NetworkConfig, preset: str | None, name: str) -> str:
    """Return a command that trains with this configuration: the preset and each option that differs.

    Without a preset it also says which mirror images there are: the command's own trial might decide otherwise.
    """
    words = ["rescnet", "train", "SOURCE" if name == UNNAMED else name]
    words += ["--preset", preset] if preset else ["--augment", config.augment]
    for entry in dataclasses.fields(NetworkConfig):
        value = getattr(config, entry.name)
        if value == getattr(base, entry.name) or (entry.name == "augment" and not preset):
            continue
        flag = entry.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return shlex.join(words)


def _show_value(value: Any) -> str:
    """Return an option's value as it is written in a configuration file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
