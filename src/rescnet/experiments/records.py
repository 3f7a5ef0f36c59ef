"""Records of experiments: a JSON list per table, one entry per network, seed and number of images."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..config.network import NetworkConfig
from ..network.history import LayerRecord, ReadoutRecord, StopReason


def identity(**facts: Any) -> str:
    """Return a short hash of what is run."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def given_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their default; a file may lack newer options."""
    defaults = NetworkConfig().to_dict()
    return {name: value for name, value in config.items() if name not in defaults or value != defaults[name]}


def summarise(history: Iterable[LayerRecord], readout: ReadoutRecord | None = None) -> dict[str, Any]:
    """Return the test accuracy in up to four ways, each with its layer.

    ``chosen`` is at the depth with the best validation accuracy, the earliest of equals; ``last`` at the last layer;
    ``paper_rule`` at the best layer of the test curve, which is no honest choice; ``readout`` with the readout.
    """
    records = list(history)

    def at(record: LayerRecord) -> dict[str, Any]:
        shares = {"train": record.train_accuracy, "held_out": record.validation_accuracy, "test": record.test_accuracy}
        return {"layer": record.layer, **shares}

    found: dict[str, Any] = {"last": at(records[-1])}
    if records[-1].validation_accuracy is not None:
        found["chosen"] = at(max(records, key=lambda r: (r.validation_accuracy or 0, -r.layer)))
    if records[-1].test_accuracy is not None:
        found["paper_rule"] = at(max(records, key=lambda r: (r.test_accuracy or 0, -r.layer)))
    if readout is not None:
        held_out, test = readout.validation_accuracy, readout.test_accuracy
        found["readout"] = {"layer": readout.layers or records[-1].layer, "held_out": held_out, "test": test}
    return found


def compact(record: LayerRecord) -> dict[str, Any]:
    """Return a layer's record for a file: seconds rounded to 0.1 ms, no memory by stage."""
    content = asdict(record)
    del content["memory"]
    content["seconds"] = {stage: round(seconds, 4) for stage, seconds in record.seconds.items()}
    return content


class Results:
    """The file of one table.

    Parameters
    ----------
    file : Path
        For example ``results/table2.json``. Files of other tables beside it may hold the same experiment.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def entries(self) -> list[dict[str, Any]]:
        """Return what the file holds."""
        return _read(self.file)

    def put(self, entry: dict[str, Any]) -> None:
        """Add an entry in place of an earlier one of its name, seed and number of training images.

        An entry whose readout is missing never replaces one that has it. An interrupted run never replaces a deeper
        run of the same network.
        """
        before = [other for other in self.entries() if _place(other) == _place(entry)]
        lacks_readout = entry["config"].get("readout") == "kernel" and not entry.get("readout")
        if lacks_readout and any(other.get("readout") for other in before):
            return
        deeper = any(other.get("key") == entry.get("key") and other["layers"] > entry["layers"] for other in before)
        if deeper and not entry.get("finished"):
            return
        kept = [other for other in self.entries() if _place(other) != _place(entry)]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(content, allow_nan=False) for content in [*kept, entry])
        write_whole(self.file, f"[\n{lines}\n]\n")

    def finished(self, key: str, layers: int, name: str, siblings: Iterable[str] = ()) -> dict[str, Any] | None:
        """Return the entry of this identity if nothing is left to do, from this file or another table's.

        Nothing is left if the run stopped by its own rules, or has the layers asked for now. The entry of that name in
        this file is returned whole; a deeper one of another name or table is cut to these layers.
        """
        found = None
        for file in (self.file, *(self.file.with_name(f"{table}.json") for table in siblings)):
            for entry in _read(file):
                reads_out = entry["config"].get("readout") == "kernel"
                if reads_out and (not entry.get("readout") or entry["layers"] != layers):
                    continue  # its readout is missing, or reads other layers
                stopped_early = entry.get("finished") and entry["layers"] < entry["config"]["layers"]
                if entry.get("key") == key and (stopped_early or entry["layers"] >= layers):
                    if file == self.file and entry["name"] == name:
                        return entry
                    found = found or _up_to(entry, layers)
        return found


def write_whole(file: Path, text: str) -> None:
    """Write a file so that a reader never finds half of it."""
    beside = file.with_name(file.name + ".part")
    beside.write_text(text)
    beside.replace(file)


def _up_to(entry: dict[str, Any], layers: int) -> dict[str, Any]:
    """Return an entry as if no more than these layers had been asked for."""
    if entry["layers"] <= layers:
        return entry
    records = [LayerRecord(**record) for record in entry["history"][:layers]]
    return entry | {
        "config": entry["config"] | {"layers": layers},
        "finished": True,
        "stopped": str(StopReason.DEPTH),
        "layers": layers,
        "seconds": round(sum(record.total_seconds for record in records), 2),
        "summary": summarise(records),
        "history": entry["history"][:layers],
    }


def seeds_together(entries: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the entries in groups that differ only in the seed, in order of seeds."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for entry in sorted(entries, key=lambda entry: int(entry["seed"])):
        settings = given_options(entry["config"]) | {"seed": None}
        groups.setdefault(identity(place=_place(entry)[:2], config=settings), []).append(entry)
    return list(groups.values())


def _place(entry: Mapping[str, Any]) -> tuple[str, int, int]:
    return entry["name"], entry["images"]["train"], entry["seed"]


def _read(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    try:
        content = json.loads(file.read_text())
    except ValueError:
        content = None
    if not isinstance(content, list):
        raise ValueError(f"{file} must be a list of results. Move it away, or choose another folder.")
    return content
