"""Fused sketches, sums of columns and moments against the stages and plain sums.

Without a GPU the kernels run in Triton's interpreter.
"""

from __future__ import annotations

import pytest
import torch
from fused.on_device import DEVICE

from rescnet.fused import add_column_sums, moments_for
from rescnet.fused.feature_sums import FusedMoments, add_column_sums_, fused_sketch
from rescnet.numerics.linear_algebra import aligned_rows
from rescnet.numerics.sketch import sketch
from rescnet.stages.moments import Moments


def random_rows(n, width, dtype, generator):
    rows = aligned_rows(n, width, dtype, torch.device(DEVICE))
    return rows.copy_(3 + torch.randn(n, width, generator=generator))


@pytest.mark.parametrize(("n", "width", "size"), [(3, 300, 130), (9, 256, 64), (1, 50, 50)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_sketch_equals_the_stage(n, width, size, dtype, generator):
    rows = random_rows(n, width, dtype, generator)
    weights = torch.randn(width, generator=generator).to(DEVICE)
    exact = sketch(rows.double(), weights.double(), size)
    found = fused_sketch(rows, weights, size)
    assert float((found - exact).norm() / exact.norm()) < 1e-6


@pytest.mark.parametrize("sums_of", [add_column_sums_, add_column_sums])
def test_columns_are_added_to_the_sums(sums_of, generator):
    parts = [random_rows(n, 70, torch.float16, generator) for n in (40, 3)]
    shift = parts[0][0].float()
    sums = torch.zeros(2, 70, dtype=torch.float64, device=DEVICE)
    for part in parts:
        sums_of(sums, part, shift)
    whole = torch.cat(parts).double() - shift.double()
    exact = torch.stack([whole.sum(0), whole.square().sum(0)])
    assert float((sums - exact).norm() / exact.norm()) < (1e-6 if sums_of is add_column_sums_ else 1e-3)


@pytest.mark.parametrize("width", [64, 192, 128])
def test_sums_and_scatter_equal_those_of_the_stage(width, generator):
    features = (5 + torch.randn(150, width, generator=generator)).half().to(DEVICE)
    targets = torch.randn(150, 3, generator=generator).to(DEVICE)
    shift = features.float().mean(0).half().float()
    scale = torch.rand(width, generator=generator).to(DEVICE)
    found, plain = FusedMoments.zeros(shift, 3), Moments.zeros(shift, 3)
    for part in (slice(0, 100), slice(100, 150)):
        for sums in (found, plain):
            sums.add(features[part], targets[part])
    assert torch.equal(found.shifted(features), plain.shifted(features))
    assert torch.equal(found.gram.tril(), plain.gram.tril())
    torch.testing.assert_close(found.scaled_scatter(scale).tril(), plain.scaled_scatter(scale).tril())


def test_the_kernels_are_taken_on_a_gpu():
    assert moments_for(torch.zeros(1, 8).half()) is Moments
    assert moments_for(torch.zeros(1, 8, device=DEVICE)) is Moments
    assert moments_for(torch.zeros(1, 8, device=DEVICE).half()) is (FusedMoments if DEVICE == "cuda" else Moments)
