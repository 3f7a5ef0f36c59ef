"""The most this device does, measured: large matrix products in each type of number, and a copy within its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from time import perf_counter

import torch

GPU_SIDE, CPU_SIDE = 8192, 1536
GPU_COPY, CPU_COPY = 2**31, 2**27  # bytes read, and as many written
REPEATS = 7


def measure_ceilings(device: torch.device, side: int | None = None, copied: int | None = None) -> dict[str, float]:
    """Return operations a second by type of number (``float16``, ``bfloat16``, ``tf32``, ``float32``), and ``copy``.

    A square product counts 2·side³ operations, a copy what is read and what is written. The best of several
    runs after two that warm up is the ceiling; on a CPU there are ``float32`` and ``copy`` only.
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
    """Return the seconds of each repeat, the device waited for."""
    found = []
    for number in range(warm_up + repeats):
        wait_for(device)
        start = perf_counter()
        work()
        wait_for(device)
        if number >= warm_up:
            found.append(perf_counter() - start)
    return found


def median_time(work: Callable[[], object], device: torch.device, repeats: int, warm_up: int = 1) -> float:
    """Return the median seconds of a piece of work."""
    return median(times(work, device, repeats, warm_up))


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done what it was told."""
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
