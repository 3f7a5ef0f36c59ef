"""Sums over features by kernels against those of the stage.

Without a GPU the kernels run in Triton's interpreter.
"""

from __future__ import annotations

import pytest
import torch
from fused.on_device import DEVICE

from rescnet.fused import moments_for
from rescnet.fused.moments import FusedMoments
from rescnet.stages.moments import Moments


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
