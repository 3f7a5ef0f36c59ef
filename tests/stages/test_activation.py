from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rescnet.stages.activation import activate

NAIVE = {"none": lambda v: v, "relu": lambda v: max(v, 0.0), "abs": abs, "tanh": math.tanh}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", NAIVE)
def test_every_number_goes_through_the_function(name, dtype, generator):
    maps = torch.randn(2, 3, 4, 5, generator=generator).to(dtype)
    found = activate(maps, name)
    expected = np.array([NAIVE[name](float(v)) for v in maps.flatten()]).reshape(maps.shape)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=2e-3 if dtype == torch.float16 else 1e-6)
