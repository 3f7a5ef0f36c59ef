"""How long an experiment will take: from what ``rescnet bench`` measured on such a device, by operation counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...config.network import NetworkConfig
from ..bench.costs import layer_costs


def seconds_per_layer(
    folder: Path,
    device: str,
    precision: str,
    config: NetworkConfig,
    image_shape: tuple[int, int, int],
    classes: int,
    train: int,
    other: int,
) -> float | None:
    """Return the seconds a layer should take, or None where nothing was measured so on this device.

    Each stage is taken from the measured network whose stage had the nearest number of operations, and scaled by them.

    Parameters
    ----------
    folder : Path
        Where ``bench-*.json`` files are.
    device : str
        As :func:`rescnet.experiments.provenance.device_name` writes it.
    precision : str
        ``exact``, ``balanced`` or ``fast``.
    """
    measured = [run for run in _runs(folder) if (run["device"], run["precision"]) == (device, precision)]
    if not measured:
        return None
    total = 0.0
    for stage in measured[0]["stages"]:
        known = [run for run in measured if stage in run["stages"]]
        costs = layer_costs(config, image_shape, classes, train, other, precision=precision)
        wanted = costs[stage].operations

        def distance(run: dict[str, Any], stage: str = stage, wanted: float = wanted) -> float:
            ratio = float(run["stages"][stage]["operations"]) / wanted
            return max(ratio, 1 / ratio)

        nearest = min(known, key=distance)["stages"][stage]
        total += float(nearest["seconds"]) * wanted / nearest["operations"]
    return total


def _runs(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for file in sorted(folder.glob("bench-*.json")):
        content = json.loads(file.read_text())
        if isinstance(content, list):
            found += content
    return found
