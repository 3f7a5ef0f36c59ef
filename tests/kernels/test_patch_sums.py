"""Sums over patches from shifted products against the patches themselves, in float64 on fresh random input."""

from __future__ import annotations

import pytest
import torch
from kernels.on_device import DEVICE

from rescnet.kernels import patch_sums_for, sums_in_place
from rescnet.kernels.half_precision import CopiedPatchSums, raw_input
from rescnet.kernels.patch_sums import PatchSums
from rescnet.stages.patches import PatchMoments, extract_patches

BATCH = 300 if DEVICE == "cuda" else 1
BOUND = 1e-4 if DEVICE == "cuda" else 1e-5  # tensor cores cut off where they add: 2.3e-5 was seen


SMALL = [(53, (7, 6)), (70, (5, 5))]


def random_inputs(channels, size):
    generator = torch.Generator().manual_seed(torch.seed() % 2**31)
    x = torch.randn(2 * BATCH + 1, channels, *size, generator=generator) + torch.randn(1, channels, 1, 1)
    return (x * torch.rand(1, channels, 1, 1, generator=generator)).half().to(DEVICE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channels", "size"),
    # On a CPU, through Triton's interpreter, all would have the one size it can do in seconds.
    [(53, (32, 32)), (61, (28, 28)), (43, (64, 64)), (20, (5, 9)), (70, (5, 5))] if DEVICE == "cuda" else SMALL,
)
def test_shifted_products_equal_the_sums_over_patches(channels, size):
    x = random_inputs(channels, size)
    exact = PatchMoments.of(extract_patches(x.double(), 3))
    sums = PatchSums(channels)
    for part in (x[:BATCH], x[BATCH:]) if channels <= 64 else (x,):  # chunks of different length
        sums.add(raw_input(part[:, :-3], part[:, -3:]))
    found = sums.moments()
    assert found.count == exact.count
    for name in ("total", "outer"):
        a, b = getattr(found, name), getattr(exact, name)
        assert float((a - b).norm() / b.norm()) < BOUND, name
        worst = (a - b).abs().max() / b.abs().max()
        assert float(worst) < BOUND, f"{name}: one entry is off, the others hide it"


def test_what_the_kernel_cannot_take_is_copied():
    assert sums_in_place(16, (5, 5), 3)
    assert not sums_in_place(53, (4, 9), 3)  # zones would overlap
    assert not sums_in_place(53, (32, 32), 5)
    assert not sums_in_place(3, (32, 32), 3)
    assert isinstance(patch_sums_for(torch.device("cpu"), 53, (32, 32), 3), CopiedPatchSums)
    assert isinstance(patch_sums_for(torch.device("cuda"), 1, (28, 28), 13), CopiedPatchSums)
    assert isinstance(patch_sums_for(torch.device("cuda"), 53, (32, 32), 3), PatchSums)
