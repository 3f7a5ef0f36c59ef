"""Benchmark of one layer: seconds by stage against ceilings measured on the same device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from ..config.network import ComputeOptions, NetworkConfig
from ..config.presets import make_config, preset_names
from ..formatting import nearest
from ..network.device import choose_device, choose_precision
from ..training.train import TrainingRun
from .costs import STAGES, StageCost, layer_costs
from .provenance import origin

ON_GPU = ("cifar10", "cifar10-adaptive", "cifar100", "mnist", "tiny-imagenet")
ON_CPU = ("digits", "cifar10")
CPU_IMAGES, CPU_FILTERS = 300, 16  # ends within a minute on a laptop
CHUNK = 10_000  # images drawn at a time
WARM_UP = 2  # the first layer has no maps before it; the second compiles what the others use
GPU_SIDE, CPU_SIDE = 8192, 1536  # of the matrices of the ceilings
GPU_COPY, CPU_COPY = 2**31, 2**27  # bytes read, and as many written
REPEATS = 7


class NothingMeasuredError(ValueError):
    """The time limit was reached before a layer was measured."""


@dataclass(frozen=True)
class Case:
    """A network to time: a preset with changes, and the sizes of its random images."""

    name: str
    preset: str
    shape: tuple[int, int, int]
    train: int
    test: int
    classes: int
    changes: dict[str, Any] = field(default_factory=dict)

    def config(self) -> NetworkConfig:
        """Return the configuration; it adds layers even if no training image is wrong."""
        return make_config(self.preset, **({"stop_at_zero_error": False} | self.changes))

    def describe(self) -> str:
        """Return the preset and its changes as text."""
        return " ".join([self.preset, *(f"{key}={value}" for key, value in self.changes.items())])

    def images(self, device: torch.device, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Return random images, uint8 (train + test, channels, height, width), and balanced labels."""
        total = self.train + self.test
        return smooth_noise(total, self.shape, device, seed), torch.arange(total, device=device) % self.classes


def known_cases() -> dict[str, Case]:
    """Return all cases by name: presets of public sets at full size, and CIFAR-10 with all 21 cells."""
    from ..data.archives import PUBLIC_SETS

    cases = {}
    for name in preset_names():
        if name in PUBLIC_SETS:
            public = PUBLIC_SETS[name]
            test = public.n_test or public.n_train // 5
            train = public.n_train if public.n_test else public.n_train - test
            cases[name] = Case(name, name, public.shape, train, test, public.classes)
    cases["cifar10-adaptive"] = replace(cases["cifar10"], name="cifar10-adaptive", changes={"pyramid_bins": "adaptive"})
    return cases


def choose_cases(
    names: Sequence[str], device: torch.device, images: int | None = None, filters: int | None = None
) -> list[Case]:
    """Return the cases of these names; by default five at full size on a GPU, two small ones on a CPU.

    Parameters
    ----------
    images : int, optional
        Number of training images; a fifth as many are test images.
    filters : int, optional
        Number of filters per layer.
    """
    known, small = known_cases(), device.type == "cpu"
    chosen = []
    for name in names or (ON_CPU if small else ON_GPU):
        if name not in known:
            choices = ", ".join(sorted(known))
            raise ValueError(f"preset must be one of {choices}, got {name!r}.{nearest(name, known)}")
        case, shrink = known[name], small and name != "digits"
        if count := images or (min(case.train, CPU_IMAGES) if shrink else None):
            case = replace(case, train=count, test=max(1, count // 5))
        if width := filters or (CPU_FILTERS if shrink else None):
            case = replace(case, changes={**case.changes, "filters": width})
        chosen.append(case)
    return chosen


def smooth_noise(count: int, shape: tuple[int, int, int], device: torch.device, seed: int = 0) -> Tensor:
    """Return random images whose neighbouring pixels are correlated, uint8 (count, c, h, w)."""
    c, h, w = shape
    generator = torch.Generator(device).manual_seed(seed)
    images = torch.empty(count, c, h, w, dtype=torch.uint8, device=device)
    for start in range(0, count, CHUNK):
        part = images[start : start + CHUNK]
        coarse = torch.rand(len(part), c, max(2, h // 4), max(2, w // 4), device=device, generator=generator)
        smooth = torch.nn.functional.interpolate(coarse, size=(h, w), mode="bilinear").mul_(200)
        part.copy_(smooth.add_(torch.rand(smooth.shape, device=device, generator=generator), alpha=55))
    return images


def measure_case(
    case: Case,
    compute: ComputeOptions,
    ceilings: Mapping[str, float],
    layers: int = 5,
    warm_up: int = WARM_UP,
    deadline: float | None = None,
    told: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train a few layers of a case and return the median seconds by stage, with rates and provenance.

    Parameters
    ----------
    ceilings : mapping
        Of :func:`measure_ceilings`.
    layers : int
        Number of layers measured, after those that warm up.
    deadline : float, optional
        Of ``time.monotonic()``. No layer is started after it.
    told : callable, optional
        Called with the progress in a few words.
    """
    config, n = case.config(), case.train
    config = replace(config, layers=max(config.layers, warm_up + layers))
    device = choose_device(compute.device)
    precision = choose_precision(compute, device)
    images, labels = case.images(device)
    run = TrainingRun(images[:n], labels[:n], config, test=(images[n:], labels[n:]), compute=compute)
    del images, labels
    walls, records = [], []
    added = iter(run)
    for number in range(1, warm_up + layers + 1):
        if deadline is not None and time.monotonic() > deadline:
            break
        if told:
            told(f"{case.name}: layer {number} of {warm_up + layers}")
        (seconds,) = times(lambda: records.append(next(added)), device, 1, warm_up=0)
        walls.append(seconds)
    walls, records = walls[warm_up:], records[warm_up:]
    if not records:
        raise NothingMeasuredError(
            f"the time limit was reached before a layer of {case.name} was measured: allow more seconds, or give "
            "fewer images."
        )
    names = dict.fromkeys(stage for record in records for stage in record.seconds)
    by_stage = {stage: median(record.seconds.get(stage, 0.0) for record in records) for stage in names}
    costs = layer_costs(
        config,
        case.shape,
        case.classes,
        case.train,
        case.test,
        precision=precision,
        itemsize=8 if compute.dtype == "float64" else 4,
        features_kept=run.plan.keep_features,
        by_rows=run.plan.by_rows,
    )
    return {
        "name": f"{case.describe()} {precision}",
        "case": case.name,
        "dataset": f"smooth noise, {case.train} training and {case.test} test images of {case.shape}",
        "config": case.config().to_dict(),
        "compute": asdict(compute),
        "precision": precision,
        **origin(device),
        "seed": 0,
        "protocol": f"median of {len(records)} layers after {warm_up} to warm up, every stage synchronised",
        "features": run.plan.features,
        "features_kept": run.plan.keep_features,
        "by_rows": run.plan.by_rows,
        "seconds": median(walls),
        "seconds_by_layer": walls,
        "seconds_by_stage": by_stage,
        "stages": {stage: rates(costs[stage], by_stage[stage], ceilings) for stage in STAGES if stage in by_stage},
        "peak_memory": max(record.peak_memory for record in records),
        "ceilings": dict(ceilings),
    }


def rates(cost: StageCost, seconds: float, ceilings: Mapping[str, float]) -> dict[str, Any]:
    """Return the rates of a stage, and the minimum seconds at the device's ceilings."""
    seconds, ceiling = max(seconds, 1e-9), ceilings.get(cost.unit)
    return {
        "seconds": seconds,
        "operations": cost.operations,
        "bytes": cost.bytes,
        "unit": cost.unit,
        "tflops": cost.operations / seconds / 1e12,
        "gigabytes_per_second": cost.bytes / seconds / 1e9,
        "share_of_operations_ceiling": cost.operations / seconds / ceiling if ceiling else None,
        "share_of_copy_ceiling": cost.bytes / seconds / ceilings["copy"],
        "least_seconds": max(cost.bytes / ceilings["copy"], cost.operations / ceiling if ceiling else 0.0),
    }


def measure_ceilings(device: torch.device, side: int | None = None, copied: int | None = None) -> dict[str, float]:
    """Return operations per second by type of number (``float16``, …, ``float32``), and bytes per second of a copy.

    A square product counts 2·side³ operations, a copy the bytes read and written. The ceiling is the best of several
    runs after two that warm up; a CPU has ``float32`` and ``copy`` only.
    """
    gpu = device.type == "cuda"
    side, copied = side or (GPU_SIDE if gpu else CPU_SIDE), copied or (GPU_COPY if gpu else CPU_COPY)
    found = {}
    types = [("float16", torch.float16), ("bfloat16", torch.bfloat16), ("tf32", torch.float32)] if gpu else []
    for name, dtype in [*types, ("float32", torch.float32)]:
        a, b = (torch.rand(side, side, device=device).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        with _matrix_precision("high" if name == "tf32" else "highest"):
            found[name] = 2 * side**3 / min(times(partial(torch.mm, a, b, out=out), device, REPEATS))
        del a, b, out
    source = torch.zeros(copied, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    found["copy"] = 2 * copied / min(times(lambda: target.copy_(source), device, REPEATS))
    return found


def times(work: Callable[[], object], device: torch.device, repeats: int, warm_up: int = 2) -> list[float]:
    """Return the seconds of each repeat, synchronised with the device."""
    found = []
    for number in range(warm_up + repeats):
        _synchronise(device)
        start = time.perf_counter()
        work()
        _synchronise(device)
        if number >= warm_up:
            found.append(time.perf_counter() - start)
    return found


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def _matrix_precision(wanted: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(wanted)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
