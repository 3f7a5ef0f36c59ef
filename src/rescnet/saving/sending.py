"""An interrupted run as bytes, for the workers that do not see its folder: JSON and safetensors, no pickle."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ..config.network import NetworkConfig
from ..network.history import LayerRecord
from .layout import layer_name
from .reading import InterruptedRun, ModelFolder
from .tensors import layer_from_bytes, layer_to_bytes, solution_from_bytes, solution_to_bytes


def run_to_bytes(run: InterruptedRun) -> bytes:
    """Return a run as bytes."""
    layers = [layer_to_bytes(layer) for layer in run.layers]
    folder = {name: value for name, value in vars(run.folder).items() if name not in ("config", "path", "records")}
    folder |= {"path": str(run.folder.path), "config": run.folder.config.to_dict()}
    head = {
        "folder": folder | {"records": [asdict(record) for record in run.folder.records]},
        "rest": {"history_bytes": run.history_bytes, "checksum": run.checksum, "damaged": run.damaged},
        "sizes": [len(layer) for layer in layers],
    }
    text = json.dumps(head).encode()
    solution = b"" if run.solution is None else solution_to_bytes(run.solution)
    return b"".join([len(text).to_bytes(8, "big"), text, *layers, solution])


def run_from_bytes(data: bytes) -> InterruptedRun:
    """Return the run in the bytes of :func:`run_to_bytes`; it holds no lock."""
    start = 8 + int.from_bytes(data[:8], "big")
    head = json.loads(data[8:start])
    facts = head["folder"]
    channels, height, width = facts["image_shape"]
    folder = ModelFolder(
        path=Path(facts["path"]),
        config=NetworkConfig(**facts["config"]),
        image_shape=(channels, height, width),
        class_names=tuple(facts["class_names"]),
        half=facts["half"],
        about=facts["about"],
        records=tuple(LayerRecord(**record) for record in facts["records"]),
        files=tuple(facts["files"]),
        sealed=facts["sealed"],
    )
    layers = []
    for number, size in enumerate(head["sizes"], 1):
        part, start = data[start : start + size], start + size
        of_network = folder.config, folder.image_shape, len(folder.class_names)
        layers.append(layer_from_bytes(part, layer_name(number), *of_network, number))
    return InterruptedRun(
        folder=folder, layers=layers, lock=None, solution=solution_from_bytes(data[start:]), **head["rest"]
    )
