"""The kernel that joins maps, image and ones against the plain version, bit for bit."""

from __future__ import annotations

import pytest
import torch
from fused.on_device import DEVICE

from rescnet.fused import input_of_sums
from rescnet.fused.half_precision import FoldedScale, raw_input
from rescnet.fused.joining import fused_raw_input
from rescnet.stages.images import ValueRange


@pytest.mark.parametrize(("maps", "colours"), [(0, 1), (0, 3), (50, 3), (7, 1), (60, 3), (130, 3)])
def test_kernel_writes_the_same(maps, colours):
    images = torch.randint(256, (5, colours, 7, 6), dtype=torch.uint8, device=DEVICE)
    given = torch.randn(5, 7, 6, maps).half().to(DEVICE).permute(0, 3, 1, 2) if maps else None
    image = FoldedScale.of(ValueRange.of(images))
    found = fused_raw_input(given, images, image)
    assert torch.equal(found, raw_input(given, image(images)))
    assert torch.equal(found, input_of_sums(given, images, image))


def test_any_strides():
    maps, images = torch.randn(8, 10, 9, 12).half().to(DEVICE), torch.randn(8, 6, 12, 9).half().to(DEVICE)
    maps, images = maps[::2, 1::2, :, ::2], images[1::2, ::2, ::2].transpose(2, 3)
    image = FoldedScale.none(3, images.device)
    assert torch.equal(fused_raw_input(maps, images, image), raw_input(maps, images))
