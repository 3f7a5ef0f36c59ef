"""Exponentials in two halves against those in float64. Without a GPU the kernel runs in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from fused.on_device import DEVICE

from rescnet.fused import halves_of_exp
from rescnet.fused.split_exponential import NUMBERS, split_exponential


@pytest.mark.parametrize("shape", [(1, 1), (3, NUMBERS), (71, 97)])
def test_halves_add_up_to_the_exponential(shape, generator):
    """The sum of both halves has 21 bits; the first half alone has 11."""
    exponents = (torch.randn(shape, generator=generator) - 1).to(DEVICE)
    exact = exponents.double().exp()
    high, low = split_exponential(exponents)
    assert high.shape == low.shape == exponents.shape and high.dtype == low.dtype == torch.float16
    torch.testing.assert_close(high.double() + low.double(), exact, rtol=2e-6, atol=1e-7)
    torch.testing.assert_close(high.double(), exact, rtol=2**-11 + 1e-6, atol=1e-7)


def test_plain_version_is_the_same(generator):
    """Without a GPU the same halves come from PyTorch's operations."""
    exponents = torch.randn(40, 30, generator=generator) - 1
    plain, fused = (
        sum(half.double().cpu() for half in found)
        for found in (halves_of_exp(exponents), split_exponential(exponents.to(DEVICE)))
    )
    torch.testing.assert_close(plain, fused, rtol=2e-6, atol=1e-7)
