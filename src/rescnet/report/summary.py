"""What a reader wants first: how good, how deep, how large, and where it was trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..data import Dataset
from ..formatting import show_bytes, show_seconds
from ..network.history import History
from ..network.network import Network
from .evaluation import Evaluation
from .model_view import TrainedModel, records_of

DIFFERS = 0.0005  # an accuracy measured now and one recorded in training, further apart than this, get a note


def chosen_depth(model: TrainedModel) -> int | None:
    """Return the depth with the best validation accuracy among the network's layers; None without such images."""
    records = records_of(model)
    if not records or records[0].validation_accuracy is None:
        return None
    return History(records).best_layer()


def curves(model: TrainedModel, evaluation: Evaluation | None) -> dict[str, list[float]]:
    """Return accuracy by layer for each split that was followed; what the report measured replaces the record."""
    records = records_of(model)
    found: dict[str, list[float]] = {}
    for split in ("train", "validation", "test"):
        values = [getattr(record, f"{split}_accuracy") for record in records]
        if values and None not in values:
            found[split] = [float(value) for value in values]
    if evaluation:
        found[evaluation.shown.split] = evaluation.accuracy
    return found


def headline(model: TrainedModel, dataset: Dataset | None, evaluation: Evaluation | None) -> dict[str, Any]:
    """Return the title, the figures of the first screen, and what is known of the training."""
    network, about = model.network, model.about
    layers = len(network.layers)
    name = str(about.get("dataset") or (dataset.name if dataset else "") or "unnamed images")
    parameters, size = parameters_of(network)
    seconds = sum(record.total_seconds for record in records_of(model))
    seconds += model.history.readout.seconds if model.history.readout and network.readout else 0
    return {
        "name": name,
        "classes": list(model.class_names),
        "layers": layers,
        "image": list(network.image_shape),
        "chosen": chosen_depth(model),
        "stopped": model.history.stopped or str(about.get("stopped") or ""),
        "notes": notes(model, evaluation),
        "parameters": parameters,
        "size": show_bytes(size),
        "time": show_seconds(seconds) if seconds else None,
        "about": about_rows({key: value for key, value in about.items() if key != "readout"}),
    }


def notes(model: TrainedModel, evaluation: Evaluation | None) -> list[str]:
    """Say where the figures need a word: other images than in training, layers left unread, or a readout after them."""
    found = []
    layers, records = len(model.network.layers), model.history.records
    if len(records) > layers:
        found.append(f"The network was trained to {len(records)} layers; this page is about its first {layers}.")
    if evaluation and len(records) >= layers:
        split = evaluation.shown.split
        recorded = getattr(records[layers - 1], f"{split}_accuracy")
        if recorded is not None and abs(recorded - evaluation.accuracy[-1]) > DIFFERS:
            found.append(
                f"Training recorded {100 * recorded:.2f} % on its {split} images; on the {len(evaluation.labels):,} "
                f"given to this page it is {100 * evaluation.accuracy[-1]:.2f} %."
            )
    if model.network.readout is not None:
        record = model.history.readout
        known = () if record is None else (("validation", record.validation_accuracy), ("test", record.test_accuracy))
        shares = [f"{100 * share:.2f} % of the {name} images" for name, share in known if share is not None]
        right = f", with which {' and '.join(shares)} were right in training" if shares else ""
        found.append(f"This page is about what the layers say; a kernel readout comes after them{right}.")
    return found


def parameters_of(network: Network) -> tuple[int, int]:
    """Return how many numbers the network has learnt, and the bytes it takes."""
    return sum(tensor.numel() for tensor in network.learned()), network.nbytes


def about_rows(about: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    """Return what is known of the training as pairs of words, nested entries one by one."""
    rows: list[list[str]] = []
    for key, value in about.items():
        name = prefix + str(key).replace("_", " ")
        if isinstance(value, Mapping):
            rows += about_rows(value, f"{name}: ")
        elif value is not None and value != "":
            rows.append([name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)])
    return rows
