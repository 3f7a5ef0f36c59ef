"""Seconds and peak memory by stage."""

from __future__ import annotations

import ctypes
import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter

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
            return torch.cuda.max_memory_allocated(self.device)
        try:
            status = Path("/proc/self/status").read_text()
            return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]
        except (OSError, TypeError):
            import resource

            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Stopwatch:
    """Seconds and peak memory by stage.

    On a GPU it waits for the current stream, so that each stage is charged for its own work. Copies on other streams
    are not waited for.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}
        self.memory: dict[str, int] = {}
        self._peak = PeakMemory(device)

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Charge the time spent inside to a stage."""
        self._peak.reset()
        start = self._now()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + self._now() - start
            self.memory[stage] = max(self.memory.get(stage, 0), self._peak.bytes())

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        return perf_counter()
