"""The kernel between codes, against loops over pairs of images."""

from __future__ import annotations

from math import exp

import pytest
import torch

from rescnet.numerics.code_kernel import Codes, code_kernel, median_squared_distance


def loop(a, b, scale):
    return torch.tensor([[exp(-scale * float((x - y).square().sum())) for y in b.double()] for x in a.double()])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16], ids=str)
def test_the_kernel_is_gaussian(generator, dtype):
    a, b = (torch.randn(n, 5, generator=generator).to(dtype) for n in (4, 7))
    found = code_kernel(Codes.of(a), Codes.of(b), 0.3)
    assert found.dtype == (torch.float32 if dtype == torch.float16 else dtype)
    torch.testing.assert_close(found, loop(a, b, 0.3).to(found.dtype), rtol=1e-5, atol=1e-6)
    own = code_kernel(Codes.of(1000 * a), Codes.of(1000 * a), 5.0)  # rounding makes no kernel larger than 1
    assert float(own.max()) <= 1 and bool((code_kernel(Codes.of(a), Codes.of(b), 0.0) == 1).all())


def test_some_codes_have_their_norms(generator):
    codes = Codes.of(torch.randn(6, 3, generator=generator))
    for rows in (slice(1, 4), torch.tensor([5, 0])):
        assert torch.equal(codes[rows].norms, Codes.of(codes.values[rows]).norms) and len(codes[rows]) == len(
            codes.values[rows]
        )


def test_the_median_squared_distance(generator):
    values = torch.randn(31, 4, generator=generator, dtype=torch.float64)
    assert median_squared_distance(Codes.of(values)) == pytest.approx(float(torch.pdist(values).square().median()))
    some = float(torch.pdist(values[::4]).square().median())
    assert median_squared_distance(Codes.of(values), 8) == pytest.approx(some)
    for equal in (values[:1], values[:1].expand(9, -1)):
        assert median_squared_distance(Codes.of(equal)) == 0.0
    assert median_squared_distance(Codes.of(values[:, :0])) == 0.0
