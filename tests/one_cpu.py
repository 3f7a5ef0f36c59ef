"""Tests of small networks run on one thread, which waits for no other, and without a GPU where there is one."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch


@contextmanager
def one_thread_only():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@contextmanager
def one_cpu_only():
    with one_thread_only(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        yield
