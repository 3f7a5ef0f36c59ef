"""Results of the runner: a JSON list per question with one entry per network and seed, and what an entry holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rescnet import NetworkConfig
from rescnet.base.files import atomic_write
from rescnet.network.history import History, LayerRecord


def identity(**facts: Any) -> str:
    """Return a short hash of what is run."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def given_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their default; a file may lack newer options."""
    defaults = NetworkConfig().to_dict()
    return {name: value for name, value in config.items() if name not in defaults or value != defaults[name]}


def summarise(history: History) -> dict[str, Any]:
    """Return the test accuracy in up to four ways, each with its layer.

    ``chosen`` is at the depth with the best validation accuracy, the earliest of equals; ``last`` at the last layer;
    ``paper_rule`` at the best layer of the test curve, which is no honest choice; ``readout`` with the readout.
    """

    def at(record: LayerRecord) -> dict[str, Any]:
        shares = {"train": record.train_accuracy, "held_out": record.validation_accuracy, "test": record.test_accuracy}
        return {"layer": record.layer, **shares}

    last, readout = history[-1], history.readout
    found: dict[str, Any] = {"last": at(last)}
    if last.validation_accuracy is not None:
        found["chosen"] = at(history[history.best_layer() - 1])
    if last.test_accuracy is not None:
        found["paper_rule"] = at(max(history, key=lambda r: (r.test_accuracy or 0, -r.layer)))
    if readout is not None:
        held_out, test = readout.validation_accuracy, readout.test_accuracy
        found["readout"] = {"layer": readout.layers or last.layer, "held_out": held_out, "test": test}
    return found


def compact(record: LayerRecord) -> dict[str, Any]:
    """Return a layer's record for a file: seconds rounded to 0.1 ms, no memory by stage."""
    content = asdict(record)
    del content["memory"]
    content["seconds"] = {stage: round(seconds, 4) for stage, seconds in record.seconds.items()}
    return content


class Results:
    """The file of one question, for example ``results/table2.json``."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def entries(self) -> list[dict[str, Any]]:
        """Return what the file holds."""
        if not self.file.exists():
            return []
        try:
            content = json.loads(self.file.read_text())
        except ValueError:
            content = None
        if not isinstance(content, list):
            raise ValueError(f"{self.file} must be a list of results. Move it away, or choose another folder.")
        return content

    def put(self, entry: dict[str, Any]) -> None:
        """Add an entry in place of an earlier one of its name, seed and number of training images.

        An entry whose readout is missing never replaces one that has it. An interrupted run never replaces a deeper
        run of the same network.
        """
        before = [other for other in self.entries() if _place(other) == _place(entry)]
        lacks_readout = _reads_out(entry) and not entry.get("readout")
        if lacks_readout and any(other.get("readout") for other in before):
            return
        deeper = any(other.get("key") == entry.get("key") and other["layers"] > entry["layers"] for other in before)
        if deeper and not entry.get("finished"):
            return
        kept = [other for other in self.entries() if _place(other) != _place(entry)]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(content, allow_nan=False) for content in [*kept, entry])
        with atomic_write(self.file) as path:
            path.write_text(f"[\n{lines}\n]\n")

    def finished(self, key: str, layers: int, name: str) -> dict[str, Any] | None:
        """Return the entry of this name and identity if nothing is left to do.

        Nothing is left if the run stopped by its own rules, or has the layers asked for now.
        """
        for entry in self.entries():
            if (entry["name"], entry.get("key")) != (name, key):
                continue
            if _reads_out(entry) and (not entry.get("readout") or entry["layers"] != layers):
                continue  # its readout is missing, or reads other layers
            stopped_early = entry.get("finished") and entry["layers"] < entry["config"]["layers"]
            if stopped_early or entry["layers"] >= layers:
                return entry
        return None


def _reads_out(entry: Mapping[str, Any]) -> bool:
    return bool(entry["config"].get("readout", "heads") != "heads")


def _place(entry: Mapping[str, Any]) -> tuple[str, int, int]:
    return entry["name"], entry["images"]["train"], entry["seed"]
