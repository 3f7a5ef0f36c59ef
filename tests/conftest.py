"""Fixtures of all tests. PyTorch is imported late: the process that only hands out tests needs none."""

from __future__ import annotations

import pytest


@pytest.fixture
def generator():
    import torch

    return torch.Generator().manual_seed(20)


@pytest.fixture(scope="session")
def blobs():
    """Six classes of 12×12 colour images: oriented gratings with noise. Returns images uint8 (n, 3, 12, 12), labels."""
    from gratings import gratings

    return gratings()


@pytest.fixture(scope="module")
def one_thread():
    """Use one thread: networks this small spend more time waiting for others than computing."""
    from one_cpu import one_thread_only

    with one_thread_only():
        yield


@pytest.fixture(scope="module")
def one_cpu():
    """Use one thread, and no GPU."""
    from one_cpu import one_cpu_only

    with one_cpu_only():
        yield


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    import torch

    return getattr(torch, request.param)


def tolerance(dtype):
    import torch

    return {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 2e-4, "atol": 2e-5}


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless browser, for the pages of reports and the playground."""
    from pathlib import Path

    from report.browser import CHROMIUM, Browser

    if not Path(CHROMIUM).exists():
        pytest.skip(f"{CHROMIUM} is missing; install Debian's chromium to test pages in a browser")
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started
