from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from conftest import tolerance

from rescnet.stages.convolution import convolve, rectify


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_convolution_matches_the_loop(k, generator, dtype):
    x = torch.randn(2, 3, 6, 5, generator=generator, dtype=dtype)
    weights = torch.randn(4, 3, k, k, generator=generator, dtype=dtype)
    bias = torch.randn(4, generator=generator, dtype=dtype)
    maps = convolve(x, weights, bias)
    assert maps.shape == (2, 4, 6, 5)
    expected = naive.convolve(x.double().numpy(), weights.double().numpy(), bias.double().numpy())
    np.testing.assert_allclose(maps.numpy(), expected, **tolerance(dtype))


def test_rectified_maps_are_a_copy_without_negatives(generator):
    maps = torch.randn(2, 3, 4, 4, generator=generator)
    before = maps.clone()
    rectified = rectify(maps)
    assert torch.equal(maps, before)
    assert torch.equal(rectified, maps * (maps > 0))
