"""Benchmarks: seconds and memory of a layer by stage, of the readout and of prediction, on random images.

    python -m lab.bench                                          every preset on a GPU, digits and default on a CPU
    python -m lab.bench --preset cifar10-best --out bench.json   one preset; the option may be repeated
    python -m lab.bench --preset default                         the default network: 500 colour images of 32×32

The time is the median of several layers after two that warm up. The readout is fitted to these layers, not to all of
the preset's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from rescnet import ComputeOptions, Config, Network, NetworkConfig, preset_names
from rescnet.base.files import check_new_file
from rescnet.base.text import check_known, show_bytes
from rescnet.data.archives import PUBLIC_SETS
from rescnet.network.device import choose_device, choose_precision
from rescnet.network.history import StopReason
from rescnet.training.run import TrainingRun
from rescnet.training.stopwatch import free_memory

from .provenance import origin, shown_command

DEFAULT = "default"  # the default network for few images like CIFAR-10's, whose mirror images are of the same class
DEFAULT_SET, DEFAULT_IMAGES = "cifar10", 500
ON_CPU = ("digits", DEFAULT)  # end within a minute on a laptop
CPU_IMAGES, CPU_FILTERS = 300, 16  # of the other presets
PREDICTED = 1000  # images, at most
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
    """Return a case per preset; by default all at full size on a GPU, two on a CPU.

    The images are like those of the public set that the preset's name starts with. ``images`` is the number of training
    images, a fifth as many are test images; ``filters`` is the number per layer.
    """
    known, small = [DEFAULT, *preset_names()], device.type == "cpu"
    cases = []
    for name in presets or (ON_CPU if small else known):
        check_known("preset", name, known)
        public = PUBLIC_SETS[max((s for s in PUBLIC_SETS if name.startswith(s)), key=len, default=DEFAULT_SET)]
        shrink = small and name not in (DEFAULT, "digits")
        test = public.n_test or public.n_train // 5
        train = public.n_train if public.n_test else public.n_train - test
        if count := images or (DEFAULT_IMAGES if name == DEFAULT else CPU_IMAGES if shrink else None):
            train, test = count, max(1, count // 5)
        preset = name
        changes: dict[str, Any] = {"stop_at_zero_error": False}  # random images may be learned without an error
        if width := filters or (CPU_FILTERS if shrink else None):
            name, changes["filters"] = f"{name} filters={width}", width
        classes = min(public.classes, train)
        if preset == DEFAULT:
            config = Config(**changes, augment="flip").complete(public.shape, classes, train)
        else:
            config = Config(preset, **changes).complete()
        cases.append(Case(name, config, public.shape, train, test, classes))
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


def measure_case(case: Case, compute: ComputeOptions, layers: int = 5, deadline: float | None = None) -> dict[str, Any]:
    """Train a few layers of a case and its readout, and predict; return seconds and memory, with provenance.

    ``layers`` are measured after those that warm up. No layer is started after the ``deadline``, which is a time of
    ``time.monotonic()``.
    """
    n, warm_up = case.train, WARM_UP if case.config.layers > WARM_UP + 1 else 0
    config = replace(case.config, layers=min(warm_up + layers, case.config.layers))
    device = choose_device(compute.device)
    precision = choose_precision(compute, device)
    images, labels = case.images(device)
    new = images[n:][:PREDICTED]
    run = TrainingRun(images[:n], labels[:n], config, test=(images[n:], labels[n:]), compute=compute, deadline=deadline)
    del images, labels
    walls, records, start = [], [], time.perf_counter()
    for record in run:  # fits the readout, too
        walls.append(time.perf_counter() - start)
        records.append(record)
        start = time.perf_counter()
    walls, records = walls[warm_up:], records[warm_up:]
    if not records:
        raise ValueError(
            f"the time limit was reached before a layer of {case.name} was measured: allow more seconds, or use fewer "
            "images."
        )
    readout, complete = run.history.readout, run.history.stopped is not StopReason.DEADLINE
    stages = dict.fromkeys(stage for record in records for stage in record.seconds)
    return {
        "name": f"{case.name} {precision}",
        "dataset": f"smooth noise, {case.train} training and {case.test} test images of {case.shape}",
        "config": case.config.to_dict(),
        "compute": asdict(compute),
        "precision": precision,
        **origin(device, shown_command("lab.bench")),
        "seed": 0,
        "protocol": f"median of {len(records)} layers after {warm_up} to warm up; on a GPU stages by events",
        "layers": len(run.history),
        "features": run.plan.features,
        "features_kept": run.plan.keep_features,
        "by_rows": run.plan.by_rows,
        "seconds": median(walls),
        "seconds_by_layer": walls,
        "seconds_by_stage": {stage: median(r.seconds.get(stage, 0.0) for r in records) for stage in stages},
        "images_per_second": (case.train + case.test) / median(walls),
        "readout_seconds": readout.seconds if readout else None,
        "prediction_seconds_per_image": _seconds_per_image(run.network, new) if complete else None,
        "peak_memory": max(record.peak_memory for record in records),
        "memory_by_stage": {stage: max(r.memory.get(stage, 0) for r in records) for stage in stages},
    }


def _seconds_per_image(network: Network, images: Tensor) -> float:
    """Return the seconds of predicting one of many images (n, channels, height, width)."""
    network.outputs(images[:2])  # to warm up
    start = time.perf_counter()
    network.outputs(images)  # synchronises, to check that outputs are finite
    return (time.perf_counter() - start) / len(images)


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(
        prog="python -m lab.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--preset", action="append", default=[], help="may be repeated; default: see above")
    made.add_argument("--images", type=int, help="training images; a fifth as many are test images")
    made.add_argument("--filters", type=int, help="filters per layer; default: the preset's, 16 on a CPU")
    made.add_argument("--layers", type=int, default=5, help="layers measured, after two to warm up")
    made.add_argument("--seconds", type=float, help="start nothing after this time; finished ones count")
    made.add_argument("--out", type=Path, help="JSON file, rewritten after each measurement")
    made.add_argument("--device", default="auto")
    made.add_argument("--precision", default="auto")
    made.add_argument("--max-memory", default="auto", help="memory limit, e.g. 40GB")
    return made


def main() -> int:
    """Measure each preset and print a table; return 1 if nothing was measured."""
    made = parser()
    arguments = made.parse_args()
    deadline = time.monotonic() + arguments.seconds if arguments.seconds else None
    try:
        if arguments.out is not None:
            check_new_file(arguments.out, overwrite=True)
        compute = ComputeOptions(
            device=arguments.device, precision=arguments.precision, max_memory=arguments.max_memory
        )
        device = choose_device(compute.device)
        cases = choose_cases(arguments.preset, device, arguments.images, arguments.filters)
    except ValueError as error:
        made.error(str(error))
    results: list[dict[str, Any]] = []
    for case in cases:
        try:
            results.append(measure_case(case, compute, arguments.layers, deadline))
        except (ValueError, ArithmeticError, RuntimeError) as error:  # the others are still measured
            print(f"{case.name}: not measured: {str(error).splitlines()[0]}", flush=True)
            continue
        finally:
            free_memory()
        if arguments.out is not None:
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")
        show(results[-1])
    return int(not results)


def show(result: Mapping[str, Any]) -> None:
    """Print a measurement."""
    print(f"\n{result['name']}: {result['features']:,} features, {result['dataset']}, {result['device']}")
    peak, rate = show_bytes(result["peak_memory"]), result["images_per_second"]
    print(f"a layer takes {result['seconds']:.3f} s, {rate:,.0f} images per second; peak {peak}")
    for stage, seconds in result["seconds_by_stage"].items():
        share = seconds / sum(result["seconds_by_stage"].values())
        memory = show_bytes(result["memory_by_stage"][stage])
        print(f"  {stage:12} {seconds:8.4f} s {100 * share:4.0f} %  peak {memory}")
    if result["readout_seconds"] is not None:
        print(
            f"readout, after {result['layers']} layers, and accuracy of test images: {result['readout_seconds']:.2f} s"
        )
    if (each := result["prediction_seconds_per_image"]) is not None:
        print(f"prediction with {result['layers']} layers: {1000 * each:.2f} ms per image", flush=True)


if __name__ == "__main__":
    sys.exit(main())
