from __future__ import annotations

import pytest
from one_cpu import one_cpu_only


@pytest.fixture(scope="package", autouse=True)
def one_cpu():
    """Use no GPU where there is one, and one thread."""
    with one_cpu_only():
        yield
