"""Time the layers of a network: some to warm up, then the median of several, every stage waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from ...config.compute import ComputeOptions
from ...network.device import choose_device
from ...training.trainer import Trainer
from ..provenance import origin
from .cases import Case
from .costs import STAGES, StageCost, layer_costs
from .peak_rates import wait_for

WARM_UP = 2  # the first layer has no maps before it; the second compiles what the others use


class NothingMeasuredError(ValueError):
    """The time was over before a layer was measured."""


def measure_case(
    case: Case,
    compute: ComputeOptions,
    ceilings: Mapping[str, float],
    layers: int = 5,
    warm_up: int = WARM_UP,
    deadline: float | None = None,
    told: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train a few layers of a case and return what they took: a result as ``results/bench-*.json`` holds it.

    Parameters
    ----------
    ceilings : mapping
        Of :func:`rescnet.experiments.bench.measure_ceilings`.
    layers : int
        Layers measured, after those that warm up.
    deadline : float, optional
        Of ``time.monotonic()``; when it has passed no further layer is begun.
    told : callable, optional
        Told in a few words how far it is.
    """
    config, n = case.config(), case.train
    images, labels = case.images(choose_device(compute.device))
    trainer = Trainer(images[:n], labels[:n], config, None, (images[n:], labels[n:]), compute)
    del images, labels
    walls, records = [], []
    for number in range(1, warm_up + layers + 1):
        if deadline is not None and time.monotonic() > deadline:
            break
        if told:
            told(f"{case.name}: layer {number} of {warm_up + layers}")
        wait_for(trainer.device)
        start = time.perf_counter()
        record = trainer.add_layer()
        wait_for(trainer.device)
        if number > warm_up:
            walls.append(time.perf_counter() - start)
            records.append(record)
    if not records:
        raise NothingMeasuredError(
            f"the time was over before a layer of {case.name} was measured: allow more seconds, or give fewer images."
        )
    names = dict.fromkeys(stage for record in records for stage in record.seconds)
    seconds = {stage: median(record.seconds.get(stage, 0.0) for record in records) for stage in names}
    costs = layer_costs(
        config,
        case.shape,
        case.classes,
        case.train,
        case.test,
        precision=trainer.precision,
        itemsize=trainer.dtype.itemsize,
        features_kept=trainer.plan.keep_features,
        by_rows=trainer.plan.by_rows,
    )
    return {
        "name": f"{case.describe()} {trainer.precision}",
        "case": case.name,
        "dataset": f"smooth noise, {case.train} training and {case.test} test images of {case.shape}",
        "config": config.to_dict(),
        "compute": asdict(compute),
        "precision": trainer.precision,
        **origin(trainer.device),
        "seed": 0,
        "protocol": f"median of {len(records)} layers after {warm_up} to warm up, every stage synchronised",
        "features": trainer.plan.features,
        "features_kept": trainer.plan.keep_features,
        "by_rows": trainer.plan.by_rows,
        "seconds": median(walls),
        "seconds_by_layer": walls,
        "seconds_by_stage": seconds,
        "stages": {stage: rates(costs[stage], seconds[stage], ceilings) for stage in STAGES if stage in seconds},
        "peak_memory": max(record.peak_memory for record in records),
        "ceilings": dict(ceilings),
    }


def rates(cost: StageCost, seconds: float, ceilings: Mapping[str, float]) -> dict[str, Any]:
    """Return what a stage did, how fast, and the least it would take at the device's ceilings."""
    seconds = max(seconds, 1e-9)
    floor = cost.bytes / ceilings["copy"]
    if cost.unit in ceilings:
        floor = max(floor, cost.operations / ceilings[cost.unit])
    return {
        "seconds": seconds,
        "operations": cost.operations,
        "bytes": cost.bytes,
        "unit": cost.unit,
        "tflops": cost.operations / seconds / 1e12,
        "gigabytes_per_second": cost.bytes / seconds / 1e9,
        "share_of_operations_ceiling": cost.operations / seconds / ceilings[cost.unit]
        if cost.unit in ceilings
        else None,
        "share_of_copy_ceiling": cost.bytes / seconds / ceilings["copy"],
        "least_seconds": floor,
    }
