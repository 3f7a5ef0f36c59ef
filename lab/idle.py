"""Where a GPU waits during a layer: its idle times by stage, and by what the program was doing.

    python -m lab.idle cifar10 mnist cifar10-best

A profile of one layer is taken after three that warm up. The GPU is idle between the end of all work so far and the
start of the next piece. That piece names the stage and the operation that launched it; what the host did for the
longest part of the time, e.g. ``cudaStreamSynchronize``, is the reason.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from rescnet import ComputeOptions
from rescnet.network.device import choose_device
from rescnet.training.run import TrainingRun
from rescnet.training.stopwatch import Stopwatch

from .bench import Case, choose_cases

ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
LEAST = 15.0  # microseconds: launches that follow each other are this close
WARM_UP = 3  # layers
Event = dict[str, Any]


def idle_times(events: list[Event]) -> list[tuple[str, str, str, float]]:
    """Return stage, operation and reason of each idle time of a trace in Chrome's format, and its microseconds."""
    whole = [event for event in events if event.get("ph") == "X"]
    work = sorted((e for e in whole if e.get("cat") in ON_GPU), key=lambda e: e["ts"])
    calls = sorted((e for e in whole if e.get("cat") in CALLS), key=lambda e: e["ts"])
    launches = {e["args"]["correlation"]: e for e in calls if "correlation" in e.get("args", {})}
    stages = [e for e in whole if e.get("cat") == "user_annotation"]
    operations = sorted((e for e in whole if e.get("cat") == "cpu_op"), key=lambda e: e["ts"])
    starts = [e["ts"] for e in operations]
    found, busy_until = [], None
    for event in work:
        if busy_until is not None and event["ts"] - busy_until > LEAST:
            launch = launches.get(event["args"].get("correlation"))
            stage = operation = "unknown"
            if launch:
                stage = next((s["name"] for s in stages if _covers(s, launch["ts"])), "between stages")
                before = operations[
                    max(0, bisect_right(starts, launch["ts"]) - 50) : bisect_right(starts, launch["ts"])
                ]
                operation = next((o["name"] for o in reversed(before) if _covers(o, launch["ts"])), event["name"][:40])
            during = ((_overlap(c, busy_until, event["ts"]), c["name"]) for c in calls)
            longest, reason = max(during, default=(0.0, ""))
            gap = event["ts"] - busy_until
            found.append((stage, operation, reason if longest > gap / 3 else "Python", gap))
        busy_until = max(busy_until or 0.0, event["ts"] + event["dur"])
    return found


def _covers(event: Event, moment: float) -> bool:
    return bool(event["ts"] <= moment <= event["ts"] + event["dur"])


def _overlap(event: Event, start: float, end: float) -> float:
    return float(min(end, event["ts"] + event["dur"]) - max(start, event["ts"]))


@contextmanager
def _named_stages() -> Iterator[None]:
    """Give the stages of a layer names in the profile."""
    plain = Stopwatch.time

    @contextmanager
    def named(watch: Stopwatch, stage: str) -> Iterator[None]:
        with torch.profiler.record_function(stage), plain(watch, stage):
            yield

    Stopwatch.time = named  # type: ignore[method-assign]
    try:
        yield
    finally:
        Stopwatch.time = plain  # type: ignore[method-assign]


def profile(case: Case) -> list[Event]:
    """Return the trace of one layer of a network."""
    images, labels = case.images(choose_device("auto"))
    train, test = (images[: case.train], labels[: case.train]), (images[case.train :], labels[case.train :])
    layers = iter(TrainingRun(*train, case.config, test=test, compute=ComputeOptions()))
    for _ in range(min(WARM_UP, case.config.layers - 1)):
        next(layers)
    with _named_stages(), torch.profiler.profile() as watched:
        next(layers)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        watched.export_chrome_trace(str(file))
        events: list[Event] = json.loads(file.read_text())["traceEvents"]
    return events


def main() -> None:
    """Print the idle times of each preset, longest first."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("presets", nargs="+")
    made.add_argument("--images", type=int, default=None)
    arguments = made.parse_args()
    for case in choose_cases(arguments.presets, choose_device("auto"), arguments.images):
        found = idle_times(profile(case))
        total: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for *what, gap in found:
            total[tuple(what)].append(gap)  # type: ignore[index]
        print(f"\n{case.name}: idle for {sum(gap for *_, gap in found) / 1000:.1f} ms of a layer, {len(found)} times")
        for (stage, operation, reason), gaps in sorted(total.items(), key=lambda pair: -sum(pair[1]))[:25]:
            print(f"  {sum(gaps) / 1000:6.2f} ms {len(gaps):4d}×  {stage:14s} {operation:40s} {reason}")


if __name__ == "__main__":
    main()
