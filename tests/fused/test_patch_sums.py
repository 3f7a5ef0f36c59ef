"""Sums over patches from shifted products against the patches themselves, in float64 on random input."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from fused.on_device import DEVICE

from rescnet.fused import has_patch_sum_kernel, input_of_sums, patch_sums_for
from rescnet.fused.half_precision import CopiedPatchSums, FoldedScale, raw_input
from rescnet.fused.patch_sums import TILE, PatchSums, _share_out, fused_raw_input
from rescnet.stages.images import ValueRange
from rescnet.stages.patches import PatchMoments, extract_patches

BATCH = 300 if DEVICE == "cuda" else 1
BOUND = 1e-4 if DEVICE == "cuda" else 1e-5  # tensor cores cut off where they add: 2.3e-5 was seen
ON_GPU = [(53, (32, 32)), (61, (28, 28)), (43, (64, 64)), (20, (5, 9)), (70, (5, 5))]


def random_inputs(channels, size):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2 * BATCH + 1, channels, *size, generator=generator)
    x += torch.randn(1, channels, 1, 1, generator=generator)
    return (x * torch.rand(1, channels, 1, 1, generator=generator)).half().to(DEVICE)


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "size"), ON_GPU if DEVICE == "cuda" else [(53, (7, 6))])
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


def test_channels_of_several_tiles(monkeypatch):
    """Against loops over pixels: few zones, because Triton's interpreter takes a second for a dozen."""
    x = raw_input(*random_inputs(70, (5, 6))[:3].split([67, 3], dim=1))
    n, h, w, c = x.shape
    work, members = _share_out(n, h, w)
    chosen = [7, 12, 24]  # at the top, in the middle, and the last corner
    monkeypatch.setattr("rescnet.fused.patch_sums._share_out", lambda *_: (work[chosen], members[:, chosen]))
    sums, exact = PatchSums(70), x.double()
    sums.add(x)
    assert sums._zones.shape[-1] == 2 * TILE
    for number in chosen:
        assert work[number, -1] == n * work[number, 1] * work[number, 3]  # one program has all pixels of the zone
        top, rows, left, columns = work[number, :4].tolist()
        for down, right in product(range(3), range(-2, 3)):
            wanted = exact.new_zeros(c, c)
            for row, column in product(range(top, top + rows), range(left, left + columns)):
                if row + down < h and 0 <= column + right < w:
                    wanted += exact[:, row, column].T @ exact[:, row + down, column + right]
            found = sums._zones[number, down, right + 2]
            assert float((found[:c, :c] - wanted).norm()) <= BOUND * float(exact.square().sum())
            assert not found[c:].any() and not found[:, c:].any()


def test_what_the_kernel_cannot_take_is_copied():
    assert has_patch_sum_kernel(16, (5, 5), 3)
    assert not has_patch_sum_kernel(53, (4, 9), 3)  # zones would overlap
    assert not has_patch_sum_kernel(53, (32, 32), 5)
    assert not has_patch_sum_kernel(3, (32, 32), 3)
    assert isinstance(patch_sums_for(torch.device("cpu"), 53, (32, 32), 3), CopiedPatchSums)
    assert isinstance(patch_sums_for(torch.device("cuda"), 1, (28, 28), 13), CopiedPatchSums)
    assert isinstance(patch_sums_for(torch.device("cuda"), 53, (32, 32), 3), PatchSums)


@pytest.mark.parametrize(("maps", "colours"), [(0, 1), (0, 3), (50, 3), (7, 1), (60, 3), (130, 3)])
def test_the_input_of_the_sums_is_the_same(maps, colours):
    images = torch.randint(256, (5, colours, 7, 6), dtype=torch.uint8, device=DEVICE)
    given = torch.randn(5, 7, 6, maps).half().to(DEVICE).permute(0, 3, 1, 2) if maps else None
    image = FoldedScale.of(ValueRange.of(images))
    found = fused_raw_input(given, images, image)
    assert torch.equal(found, raw_input(given, image(images)))
    assert torch.equal(found, input_of_sums(given, images, image))


def test_the_input_may_have_any_strides():
    maps, images = torch.randn(8, 10, 9, 12).half().to(DEVICE), torch.randn(8, 6, 12, 9).half().to(DEVICE)
    maps, images = maps[::2, 1::2, :, ::2], images[1::2, ::2, ::2].transpose(2, 3)
    image = FoldedScale.none(3, images.device)
    assert torch.equal(fused_raw_input(maps, images, image), raw_input(maps, images))
