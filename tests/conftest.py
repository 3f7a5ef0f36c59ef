from __future__ import annotations

import pytest
import torch
from gratings import gratings
from one_cpu import one_cpu_only, one_thread_only


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(20)


@pytest.fixture(scope="session")
def blobs():
    """Six classes of 12×12 colour images: oriented gratings with noise. Returns images uint8 (n, 3, 12, 12), labels."""
    return gratings()


@pytest.fixture(scope="module")
def one_thread():
    """Use one thread: networks this small spend more time waiting for others than computing."""
    with one_thread_only():
        yield


@pytest.fixture(scope="module")
def one_cpu():
    """Use one thread, and no GPU."""
    with one_cpu_only():
        yield


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


def tolerance(dtype):
    return {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 2e-4, "atol": 2e-5}
