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


@pytest.mark.parametrize(("k", "dilation"), [(3, 2), (2, 3), (3, 3), (1, 4)])
def test_a_dilated_filter_is_a_large_one_with_zeros_between(k, dilation, generator):
    x = torch.randn(2, 3, 9, 8, generator=generator, dtype=torch.float64)
    weights = torch.randn(4, 3, k, k, generator=generator, dtype=torch.float64)
    bias = torch.randn(4, generator=generator, dtype=torch.float64)
    size = k + (k - 1) * (dilation - 1)
    large = np.zeros((4, 3, size, size))
    large[:, :, ::dilation, ::dilation] = weights.numpy()
    expected = naive.convolve(x.numpy(), large, bias.numpy())
    np.testing.assert_allclose(convolve(x, weights, bias, dilation).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("k", "dilation"), [(3, 1), (2, 1), (3, 2), (2, 3)])
def test_the_border_is_its_channel_s_value_or_the_outermost_pixels(k, dilation, generator):
    x = torch.randn(2, 3, 6, 5, generator=generator, dtype=torch.float64)
    weights = torch.randn(4, 3, k, k, generator=generator, dtype=torch.float64)
    bias, value = (torch.randn(size, generator=generator, dtype=torch.float64) for size in (4, 3))
    covered = k + (k - 1) * (dilation - 1)
    before, after = (covered - 1) // 2, covered // 2
    frame = (0, 0), (before, after), (before, after)
    channels = [np.pad(x[:, c].numpy(), frame, constant_values=float(value[c])) for c in range(3)]
    for padded, border in ((np.stack(channels, 1), value), (np.pad(x.numpy(), ((0, 0), *frame), mode="edge"), "edge")):
        expected = convolve(torch.as_tensor(padded), weights, bias, dilation)[:, :, before:, before:][:, :, :6, :5]
        np.testing.assert_allclose(convolve(x, weights, bias, dilation, border).numpy(), expected.numpy(), atol=1e-12)


def test_rectified_maps_are_a_copy_without_negatives(generator):
    maps = torch.randn(2, 3, 4, 4, generator=generator)
    before = maps.clone()
    rectified = rectify(maps)
    assert torch.equal(maps, before)
    assert torch.equal(rectified, maps * (maps > 0))
