from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="package", autouse=True)
def one_cpu():
    """Use no GPU where there is one, and one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        yield
    torch.set_num_threads(threads)
