"""Products of a symmetric matrix of which only the lower triangle is read, against whole products in float64.

Without a GPU the kernel runs in Triton's interpreter.
"""

from __future__ import annotations

import pytest
import torch
from fused.on_device import DEVICE

from rescnet.fused import symmetric_multiplier
from rescnet.fused.symmetric_product import symmetric_product
from rescnet.numerics.linear_algebra import lower_product


@pytest.mark.parametrize(("size", "columns"), [(64, 3), (64, 16), (128, 32), (150, 16), (200, 20), (129, 32), (70, 40)])
@pytest.mark.parametrize("transposed", [False, True])
def test_kernel_equals_the_whole_product(size, columns, transposed, generator):
    matrix = torch.randn(size, size, generator=generator)
    whole = matrix.tril() + matrix.tril(-1).T
    x = torch.randn(columns, size, generator=generator).T
    x = x if transposed else x.contiguous()
    exact = whole.double() @ x.double()
    given = matrix.tril() + torch.full_like(matrix, 1e30).triu(1)
    for product in (symmetric_product, lambda a, b: symmetric_multiplier(a)(b)):
        found = product(given.to(DEVICE), x.to(DEVICE)).double().cpu()
        assert float((found - exact).norm() / exact.norm()) < 2e-6


@pytest.mark.parametrize("panel", [7, 64, 200])
def test_panels_equal_the_whole_product(panel, generator, monkeypatch):
    monkeypatch.setattr("rescnet.numerics.linear_algebra.PANEL", panel)
    matrix, x = torch.randn(150, 150, generator=generator), torch.randn(150, 40, generator=generator)
    exact = (matrix.tril() + matrix.tril(-1).T).double() @ x.double()
    given = matrix.tril() + torch.full_like(matrix, torch.nan).triu(1)
    found = lower_product(given.to(DEVICE), x.to(DEVICE)).double().cpu()
    assert float((found - exact).norm() / exact.norm()) < 2e-6
