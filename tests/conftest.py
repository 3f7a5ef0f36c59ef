from __future__ import annotations

import numpy as np
import pytest
import torch


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(20)


@pytest.fixture(scope="session")
def blobs():
    """Six classes of 12×12 colour images: oriented gratings with noise. Returns images uint8 (n, 3, 12, 12), labels."""
    rng = np.random.default_rng(5)
    labels = np.arange(240) % 6
    y, x = np.mgrid[:12, :12]
    angle = labels[:, None, None] * np.pi / 6
    wave = np.sin(1.3 * (np.cos(angle) * x + np.sin(angle) * y) + rng.uniform(0, 6, (240, 1, 1)))
    images = 128 + 50 * wave[:, None] + rng.normal(0, 45, (240, 3, 12, 12))
    return images.clip(0, 255).astype(np.uint8), labels


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


def tolerance(dtype):
    return {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 2e-4, "atol": 2e-5}
