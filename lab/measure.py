"""Measurements of memory, workers and time that are no training of a question.

    python -m lab.measure memory-growth     ten times the images, the same peak memory
    python -m lab.measure capped-memory     CIFAR-10 on a GPU of 16 GB, against the same GPU without the cap
    python -m lab.measure workers           one worker against two
    python -m lab.measure layer-times       seconds by stage in each precision, beside the limits of the device
    python -m lab.measure readout-fit       a kernel readout of a million rows, by conjugate gradients
    torchrun --standalone --nproc-per-node 1 -m lab.measure nccl      every exchange through NCCL, same bits

Each result is one line of ``records/bench.jsonl``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from rescnet import ComputeOptions, Config, NetworkConfig
from rescnet.base.text import parse_bytes
from rescnet.data import load
from rescnet.network.device import choose_device
from rescnet.numerics.code_kernel import Codes, kernel_scale, median_squared_distance
from rescnet.training.readout.iterative import LARGEST_TILE, KernelProducts, landmarks_for, solve_iteratively
from rescnet.training.readout.system import ridge_for
from rescnet.training.run import TrainingRun
from rescnet.training.workers import Workers, join_workers

from .bench import choose_cases, measure_case
from .costs import measure_ceilings, stage_rates
from .provenance import origin, shown_command
from .records import keep_bench

COUNTED = ("cifar10", "cifar100", "mnist", "tiny-imagenet")  # presets without matrix roots, which costs do not count
SHAPE, CLASSES = (1, 16, 16), 10
SMALL = {"layers": 2, "filters": 20, "first_filter_size": 5, "block_stride": 2, "ridge": 0.3}
WORKER_LAYERS, WORKER_IMAGES = 4, 6000
READOUT_NUMBERS, READOUT_CLASSES, READOUT_BYTES = 1024, 200, 45 * 10**9  # bytes of the preconditioner


def small_config(**changes: Any) -> NetworkConfig:
    """Return a network for 16×16 grey images."""
    return Config("paper", **(SMALL | {"stop_at_zero_error": False} | changes)).complete(SHAPE, CLASSES)


def gratings(file: Path, count: int) -> None:
    """Write random gratings, one direction per class, uint8 (count, 1, 16, 16)."""
    images = np.lib.format.open_memmap(file, "w+", np.uint8, (count, *SHAPE))
    y, x = np.mgrid[: SHAPE[1], : SHAPE[2]]
    for start in range(0, count, 5000):
        rng = np.random.default_rng(start)
        labels = np.arange(start, min(start + 5000, count)) % CLASSES
        angle = labels[:, None, None] * np.pi / CLASSES
        wave = np.sin(np.cos(angle) * x + np.sin(angle) * y + rng.uniform(0, 6, (len(labels), 1, 1)))
        images[start : start + 5000, 0] = (128 + 40 * wave + rng.normal(0, 50, wave.shape)).clip(0, 255)
    images.flush()


def child(words: list[str], program: tuple[str, ...] = (sys.executable,), **environment: str) -> dict[str, Any]:
    """Run a part of this module in its own process, and return the JSON of its last line."""
    command = [*program, "-m", "lab.measure", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def memory_growth_child(file: str, memory: str) -> dict[str, Any]:
    """Train on the images of a file with maps in a memory-mapped file; return the peak."""
    images = np.load(file, mmap_mode="r")
    compute = ComputeOptions(device="cpu", max_memory=memory, maps="file", scratch=str(Path(file).parent))
    run = TrainingRun(images, np.arange(len(images)) % CLASSES, small_config(), compute=compute)
    peak = max(record.peak_memory for record in run)
    return {"images": len(images), "peak_memory": peak, "plan": asdict(run.plan)}


def memory_growth(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the peak memory of the process at 20,000 and 200,000 images."""
    runs = []
    for count in arguments.images or [20_000, 200_000]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "images.npy"
            gratings(file, count)
            runs.append(
                child(["memory-growth-child", "--file", str(file), "--max-memory", arguments.max_memory or "400MB"])
            )
        print(f"{count:,} images: peak {runs[-1]['peak_memory'] / 1e6:.0f} MB", flush=True)
    return {"question": "memory", "peak_ratio": runs[-1]["peak_memory"] / runs[0]["peak_memory"], "runs": runs}


def capped_memory(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train the same layers with and without a cap of the GPU's memory, and compare the networks bit for bit."""
    data = load("cifar10")
    assert data.test is not None
    cap = parse_bytes(arguments.max_memory or "16GB")
    config = Config("cifar10", layers=6, stop_at_zero_error=False).complete()
    found: dict[str, Any] = {"question": "memory", "dataset": "cifar10", "cap": cap}
    networks: list[list[Any]] = []
    for name, compute in (("free", ComputeOptions()), ("capped", ComputeOptions(max_memory=str(cap)))):
        gc.collect()
        if name == "capped" and torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(min(1.0, cap / torch.cuda.get_device_properties(0).total_memory))
        test = data.test.images, data.test.labels
        run = TrainingRun(data.train.images, data.train.labels, config, test=test, compute=compute)
        records = list(run)
        seconds, peak = median(r.total_seconds for r in records[1:]), max(r.peak_memory for r in records)
        found[name] = {"plan": asdict(run.plan), "seconds_per_layer": seconds, "peak_memory": peak}
        networks.append([layer.to(torch.device("cpu"), torch.float32) for layer in run.network.layers])
        print(f"{name}: {seconds:.3f} s per layer, peak {peak / 1e9:.1f} GB", flush=True)
    pairs = list(zip(*networks, strict=True))
    heads = [(a.head.weights, b.head.weights) for a, b in pairs]
    equal = all(torch.equal(a, b) for a, b in [*heads, *((a.weights, b.weights) for a, b in pairs)])
    return found | {"equal_networks": equal, "greatest_difference": max(float((a - b).abs().max()) for a, b in heads)}


def workers_child(file: str) -> dict[str, Any] | None:
    """Train as one of the workers; rank 0 returns seconds and exchanged bytes per layer."""
    torch.set_num_threads(1)
    images = np.load(file, mmap_mode="r")
    with join_workers("cpu") as workers:
        config, compute = small_config(layers=WORKER_LAYERS), ComputeOptions(device="cpu")
        run = TrainingRun(images, np.arange(len(images)) % CLASSES, config, compute=compute, workers=workers)
        records, exchanged = [], [0]
        for record in run:
            records.append(record)
            exchanged.append(workers.exchanged)
        if not workers.is_rank0:
            return None
        return {
            "workers": workers.count,
            "seconds": median(record.total_seconds for record in records[1:]),
            "exchanged": median(b - a for a, b in pairwise(exchanged[1:])),
            "train_accuracies": [record.train_accuracy for record in records],
        }


def workers(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one worker and two on this machine, one thread each."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "images.npy"
        gratings(file, (arguments.images or [WORKER_IMAGES])[0])
        for count in (1, 2):
            torchrun = ("torchrun", "--standalone", "--nproc-per-node", str(count))
            runs.append(child(["workers-child", "--file", str(file)], torchrun, OMP_NUM_THREADS="1"))
            print(f"{count} workers: {runs[-1]['seconds']:.2f} s per layer", flush=True)
    return {"question": "workers", "runs": runs}


def layer_times(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the paper's networks in each precision, beside the limits of the device; ``lab.bench`` has none."""
    device = choose_device("auto")
    ceilings, runs = measure_ceilings(device), []
    gpu = device.type == "cuda"
    for case in choose_cases(COUNTED if gpu else COUNTED[:1], device, (arguments.images or [None])[0]):
        for precision in ("balanced", "fast") if gpu else ("exact",):
            try:
                result = measure_case(case, ComputeOptions(precision=precision))
            except (ValueError, ArithmeticError, RuntimeError) as error:
                print(f"{case.name} {precision}: not measured: {error}", flush=True)
                continue
            runs.append(result | {"stages": stage_rates(case, result, ceilings), "ceilings": ceilings})
            print(f"{runs[-1]['name']}: {runs[-1]['seconds']:.3f} s", flush=True)
            gc.collect()
    return {"question": "speed", "runs": runs}


def readout_fit(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fit a kernel readout to made codes: clusters of 200 classes, whose variances fall like those of real codes."""
    device, runs = choose_device("auto"), []
    for rows in arguments.images or [1_000_000]:
        generator = torch.Generator(device).manual_seed(0)
        spread = torch.arange(1, READOUT_NUMBERS + 1, device=device) ** -0.4
        labels = torch.arange(rows, device=device) % READOUT_CLASSES
        centres = torch.randn(READOUT_CLASSES, READOUT_NUMBERS, generator=generator, device=device) * spread
        values = torch.randn(rows, READOUT_NUMBERS, generator=generator, device=device).mul_(spread)
        values = values.add_(centres[labels], alpha=0.3).to(torch.float16 if device.type == "cuda" else torch.float32)
        codes, right = Codes.of(values), torch.nn.functional.one_hot(labels, READOUT_CLASSES).float()
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        scale = kernel_scale(0.8, median_squared_distance(codes))
        products = KernelProducts(codes, scale, ridge_for(rows, 0.01), Workers(), LARGEST_TILE)

        by_step: list[tuple[float, float]] = []  # seconds since the start, and the residual

        def report(
            steps: int, residual: float, solution: torch.Tensor, start: float = start, by_step: list[Any] = by_step
        ) -> None:
            by_step.append((round(time.perf_counter() - start, 1), residual))
            print(f"  step {steps}: residual {residual:.2e}, {by_step[-1][0]} s", flush=True)
            if arguments.seconds and by_step[-1][0] > arguments.seconds:
                raise TimeoutError

        finished = True
        try:
            solve_iteratively(products, right, landmarks_for(rows, READOUT_BYTES), 0, True, report)
        except TimeoutError:
            finished = False
        peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
        runs.append({"rows": rows, "numbers": READOUT_NUMBERS, "classes": READOUT_CLASSES, "ridge": products.ridge})
        runs[-1] |= {"steps": len(by_step), "seconds": by_step[-1][0], "residual": min(r for _, r in by_step)}
        runs[-1] |= {"by_step": by_step, "finished": finished, "peak_bytes": peak}
        print({name: value for name, value in runs[-1].items() if name != "by_step"}, flush=True)
    return {"question": "readout", "runs": runs}


def nccl(arguments: argparse.Namespace) -> None:
    """Train with one worker that exchanges with itself, and without workers: the bits must be the same."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(2000) % 10
    images = (torch.rand(2000, 3, 32, 32, generator=generator) * 128 + 12 * labels.view(-1, 1, 1, 1)).byte()
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({}, {"maps": "host"}),
        ({"bank": "lda + stacked-lda", "augment": "flip + shift 1", "test_views": "flip"}, {"maps": "host"}),
        ({"head": "ridge", "scaling": "channel"}, {"precision": "exact"}),
        ({}, {"dtype": "float64", "maps": "file"}),
        ({"readout": "kernel", "loo_correction": True}, {}),
    ]
    with join_workers(device, alone=True) as together:
        print(f"{torch.distributed.get_backend()} on {together.device}, torch {torch.__version__}")
        for options, machine in cases:
            found = []
            for who in (together, Workers()):
                config = NetworkConfig(filters=20, layers=3, stop_at_zero_error=False, **options)
                compute, test = ComputeOptions(device=device, **machine), (images[1800:], labels[1800:])
                run = TrainingRun(images[:1800], labels[:1800], config, test=test, compute=compute, workers=who)
                list(run)
                found.append(run.network.learned())
            same = all(torch.equal(a, b) for a, b in zip(*found, strict=True))
            print(f"{'same bits' if same else 'DIFFERENT'}: {options} {machine}", flush=True)


MEASUREMENTS = {
    "memory-growth": memory_growth,
    "capped-memory": capped_memory,
    "workers": workers,
    "layer-times": layer_times,
    "readout-fit": readout_fit,
}


def main() -> None:
    """Measure, and append the result to the record."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("what", choices=[*MEASUREMENTS, "nccl", "memory-growth-child", "workers-child"])
    made.add_argument("--images", nargs="+", type=int, default=None)
    made.add_argument("--max-memory", default=None, help="memory limit, e.g. 16GB")
    made.add_argument("--seconds", type=float, default=None, help="end readout-fit after this time")
    made.add_argument("--out", default="", help="file for the entry, instead of the record")
    made.add_argument("--file", default="", help=argparse.SUPPRESS)
    arguments = made.parse_args()
    if arguments.what == "nccl":
        nccl(arguments)
    elif arguments.what == "memory-growth-child":
        print(json.dumps(memory_growth_child(arguments.file, arguments.max_memory)))
    elif arguments.what == "workers-child":
        if found := workers_child(arguments.file):
            print(json.dumps(found))
    else:
        result = MEASUREMENTS[arguments.what](arguments)
        device = choose_device("auto") if arguments.what in ("capped-memory", "layer-times", "readout-fit") else "cpu"
        facts = origin(device, shown_command("lab.measure"))
        entry = {"file": arguments.what, "name": arguments.what, **facts, "seed": 0, **result}
        keep_bench(entry, arguments.out)


if __name__ == "__main__":
    main()
