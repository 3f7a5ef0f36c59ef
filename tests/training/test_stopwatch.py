"""Seconds and memory by stage, on a CPU and on a pretended GPU."""

from __future__ import annotations

from time import sleep
from types import SimpleNamespace

import pytest
import torch

from rescnet.training.stopwatch import Stopwatch


def test_a_stage_is_charged_for_all_its_spans():
    watch = Stopwatch(torch.device("cpu"))
    for stage, seconds in (("a", 0.02), ("b", 0.001), ("a", 0.03)):
        with watch.time(stage):
            sleep(seconds)
    assert watch.seconds["a"] >= 0.05 > watch.seconds["b"] >= 0.001 and min(watch.memory.values()) > 0


def test_a_failing_stage_is_charged_too():
    watch = Stopwatch(torch.device("cpu"))
    with pytest.raises(KeyError), watch.time("a"):
        raise KeyError
    assert set(watch.seconds) == {"a"}


def test_a_gpu_is_waited_for_once(monkeypatch):
    """Events are recorded in the current stream, and read only when the seconds are asked for."""
    clock, waits = iter(range(100)), []
    stream = SimpleNamespace(synchronize=lambda: waits.append(len(waits)))

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self, where):
            assert where is stream
            self.at = next(clock)

        def elapsed_time(self, end):
            assert waits
            return 1000.0 * (end.at - self.at)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    stats = {"allocated_bytes": {"all": {"peak": 7}}}
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: stats)
    watch = Stopwatch(torch.device("cuda"))
    for stage in ("a", "b", "a"):
        with watch.time(stage):
            pass
    assert not waits and watch.seconds == {"a": 2.0, "b": 1.0} and waits == [0] and watch.memory == {"a": 7, "b": 7}
