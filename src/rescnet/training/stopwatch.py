"""Seconds and peak memory by stage."""

from __future__ import annotations

import ctypes
import gc
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import torch


def trim_heap() -> None:
    """Return freed heap memory to the system, holes included, if the C library is glibc."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def free_memory() -> None:
    """Return freed memory to the system, so that one network's memory is not the next one's peak."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    trim_heap()


class PeakMemory:
    """Peak memory since :meth:`reset`."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def reset(self) -> None:
        """Reset the peak; where the system has no such call, the peak is that of the whole process."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def bytes(self) -> int:
        """Return the peak in bytes."""
        if self.device.type == "cuda":
            # Many times faster than max_memory_allocated, which sorts all of these facts.
            return int(torch.cuda.memory_stats_as_nested_dict(self.device)["allocated_bytes"]["all"]["peak"])
        try:
            status = Path("/proc/self/status").read_text()
            return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]
        except (OSError, TypeError):
            import resource

            unit = 1 if sys.platform == "darwin" else 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Stopwatch:
    """Seconds and peak memory by stage.

    On a GPU, events in the current stream mark the ends of a stage. So the next stage is launched while this one runs,
    and each is charged for its own work. Copies on other streams are not waited for.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.memory: dict[str, int] = {}
        self._peak = PeakMemory(device)
        self._spans: list[tuple[str, Any, Any]] = []  # a stage, and the marks at its ends

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Charge the time spent inside to a stage."""
        self._peak.reset()
        start = self._mark()
        try:
            yield
        finally:
            self._spans.append((stage, start, self._mark()))
            self.memory[stage] = max(self.memory.get(stage, 0), self._peak.bytes())

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each stage so far; waits for a GPU to finish them."""
        on_gpu, found = self.device.type == "cuda", dict.fromkeys((stage for stage, _, _ in self._spans), 0.0)
        if on_gpu:
            torch.cuda.current_stream(self.device).synchronize()
        for stage, start, end in self._spans:
            found[stage] += start.elapsed_time(end) / 1000 if on_gpu else end - start  # events tell milliseconds
        return found

    def _mark(self) -> Any:
        """Return the time on a CPU, or an event at which a GPU writes it down."""
        if self.device.type != "cuda":
            return perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event
