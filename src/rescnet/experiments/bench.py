"""Benchmarks: seconds and memory of one layer by stage, on random images of a public set's size."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import torch
from torch import Tensor

from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..config.presets import make_config, preset_names
from ..data.archives import PUBLIC_SETS
from ..formatting import nearest
from ..network.device import choose_device, choose_precision
from ..training.train import TrainingRun
from .records import origin

ON_GPU = ("cifar10", "cifar100", "mnist", "tiny-imagenet")
ON_CPU = ("digits", "cifar10")
CPU_IMAGES, CPU_FILTERS = 300, 16  # ends within a minute on a laptop
CHUNK = 10_000  # images drawn at a time
WARM_UP = 2  # the first layer has no maps before it; the second compiles what the others use


@dataclass(frozen=True)
class Case:
    """A network to time, and the sizes of its random images; ``shape`` is (channels, height, width)."""

    name: str
    config: NetworkConfig
    shape: tuple[int, int, int]
    train: int
    test: int
    classes: int

    def images(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return random images, uint8 (train + test, channels, height, width), and balanced labels."""
        total = self.train + self.test
        return smooth_noise(total, self.shape, device), torch.arange(total, device=device) % self.classes


def choose_cases(
    presets: Sequence[str], device: torch.device, images: int | None = None, filters: int | None = None
) -> list[Case]:
    """Return a case per preset; by default four at full size on a GPU, two small ones on a CPU.

    ``images`` is the number of training images, a fifth as many are test images; ``filters`` is the number per layer.
    """
    known, small = [name for name in preset_names() if name in PUBLIC_SETS], device.type == "cpu"
    cases = []
    for name in presets or (ON_CPU if small else ON_GPU):
        if name not in known:
            raise ValueError(f"preset must be one of {', '.join(known)}, got {name!r}.{nearest(name, known)}")
        public, shrink = PUBLIC_SETS[name], small and name != "digits"
        test = public.n_test or public.n_train // 5
        train = public.n_train if public.n_test else public.n_train - test
        if count := images or (min(train, CPU_IMAGES) if shrink else None):
            train, test = count, max(1, count // 5)
        changes: dict[str, Any] = {"stop_at_zero_error": False}  # random images may be learned without an error
        if width := filters or (CPU_FILTERS if shrink else None):
            name, changes["filters"] = f"{name} filters={width}", width
        config = make_config(name.split()[0], **changes)
        cases.append(Case(name, config, public.shape, train, test, public.classes))
    return cases


def smooth_noise(count: int, shape: tuple[int, int, int], device: torch.device) -> Tensor:
    """Return random images whose neighbouring pixels are correlated, uint8 (count, c, h, w)."""
    c, h, w = shape
    generator = torch.Generator(device).manual_seed(0)
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
    layers: int = 5,
    deadline: float | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> dict[str, Any]:
    """Train a few layers of a case; return the median seconds and the peak memory by stage, with provenance.

    ``layers`` are measured after those that warm up. No layer is started after the ``deadline``, which is a time of
    ``time.monotonic()``. ``progress`` is called with the progress in a few words.
    """
    n, most = case.train, WARM_UP + layers
    config = replace(case.config, layers=max(case.config.layers, most))
    device = choose_device(compute.device)
    precision = choose_precision(compute, device)
    images, labels = case.images(device)
    run = TrainingRun(images[:n], labels[:n], config, test=(images[n:], labels[n:]), compute=compute)
    del images, labels
    walls, records, added = [], [], iter(run)
    for number in range(1, most + 1):
        if deadline is not None and time.monotonic() > deadline:
            break
        progress(f"{case.name}: layer {number} of {most}")
        start = time.perf_counter()
        record = next(added)
        if number > WARM_UP:
            walls.append(time.perf_counter() - start)
            records.append(record)
    if not records:
        raise ValueError(
            f"the time limit was reached before a layer of {case.name} was measured: allow more seconds, or use fewer "
            "images."
        )
    stages = dict.fromkeys(stage for record in records for stage in record.seconds)
    return {
        "name": f"{case.name} {precision}",
        "dataset": f"smooth noise, {case.train} training and {case.test} test images of {case.shape}",
        "config": case.config.to_dict(),
        "compute": asdict(compute),
        "precision": precision,
        **origin(device),
        "seed": 0,
        "protocol": f"median of {len(records)} layers after {WARM_UP} to warm up, every stage synchronised",
        "features": run.plan.features,
        "features_kept": run.plan.keep_features,
        "by_rows": run.plan.by_rows,
        "seconds": median(walls),
        "seconds_by_layer": walls,
        "seconds_by_stage": {stage: median(r.seconds.get(stage, 0.0) for r in records) for stage in stages},
        "images_per_second": (case.train + case.test) / median(walls),
        "peak_memory": max(record.peak_memory for record in records),
        "memory_by_stage": {stage: max(r.memory.get(stage, 0) for r in records) for stage in stages},
    }
