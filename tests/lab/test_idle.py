"""Idle times of a GPU, from a trace made by hand."""

from __future__ import annotations

from lab.idle import idle_times


def event(category, name, start, length, correlation=None):
    args = {} if correlation is None else {"correlation": correlation}
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "args": args}


TRACE = [
    event("user_annotation", "heads", 0, 150),
    event("kernel", "first", 10, 20, 1),
    event("kernel", "beside it on another stream", 15, 60, 2),
    event("kernel", "soon after", 80, 10, 3),  # 5 µs: no idle time
    event("cpu_op", "aten::item", 20, 90),
    event("cuda_runtime", "cudaStreamSynchronize", 25, 70),
    event("cpu_op", "aten::mm", 120, 20),
    event("cuda_runtime", "cudaLaunchKernel", 125, 5, 4),
    event("kernel", "gemm", 130, 10, 4),
    event("cuda_runtime", "cudaLaunchKernel", 290, 5, 5),
    event("gpu_memset", "Memset", 300, 1, 5),
]


def test_an_idle_time_has_a_stage_an_operation_and_a_reason():
    assert idle_times(TRACE) == [
        ("heads", "aten::mm", "Python", 40),
        ("between stages", "Memset", "Python", 160),
    ]


def test_the_reason_is_the_longest_call_of_the_host():
    trace = [e for e in TRACE if e["name"] != "soon after"]
    assert idle_times(trace)[0] == ("heads", "aten::mm", "cudaStreamSynchronize", 55)
