"""Images prepared before the first layer: contrast against a loop, whitening by what defines it."""

from __future__ import annotations

import pytest
import torch

from rescnet.stages.patches import PatchMoments, extract_patches
from rescnet.stages.preparation import Preparation, even_contrast, whitening_filters

generator = torch.Generator().manual_seed(0)
IMAGES = torch.randint(0, 256, (20, 3, 12, 12), generator=generator).double()
IMAGES[:, 1] = 0.5 * IMAGES[:, 0] + 0.5 * IMAGES[:, 1]  # colours that go together


ENDS = torch.zeros(3), torch.full((3,), 255.0)


def test_contrast_is_that_of_a_loop_over_windows():
    floor = torch.tensor(70.0).double()
    found = even_contrast(IMAGES[:2], 5, floor)
    for image in (0, 1):
        for row in range(12):
            for column in range(12):
                window = IMAGES[image, :, max(0, row - 2) : row + 3, max(0, column - 2) : column + 3]
                deviation = window.std(correction=0).clamp_min(70.0)
                wanted = (IMAGES[image, :, row, column] - window.mean()) / deviation
                torch.testing.assert_close(found[image, :, row, column], wanted)


def test_a_flat_image_has_no_contrast():
    assert not even_contrast(torch.full((1, 1, 6, 6), 9.0), 3, torch.tensor(0.0)).any()


def test_whitening_by_single_pixels_decorrelates_the_channels():
    moments = PatchMoments.of(extract_patches(IMAGES, 1))
    weights, bias = whitening_filters(moments, 3, 1e-9)
    found = Preparation(0, torch.tensor(0.0).double(), weights, bias, *ENDS)(IMAGES)
    pixels = found.permute(1, 0, 2, 3).flatten(1)
    torch.testing.assert_close(pixels.mean(1), torch.zeros(3).double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(torch.cov(pixels, correction=0), torch.eye(3).double(), atol=1e-6, rtol=0)


def test_whitening_filters_make_the_middle_pixel_of_the_whitened_patch():
    patches = extract_patches(IMAGES, 3)
    moments = PatchMoments.of(patches)
    weights, bias = whitening_filters(moments, 3, 0.1)
    values, vectors = torch.linalg.eigh(moments.covariance())
    zca = vectors @ torch.diag((values + 0.1 * values.mean()) ** -0.5) @ vectors.T
    whitened = (patches - moments.mean()) @ zca  # (n, positions, 27)
    found = Preparation(0, torch.tensor(0.0).double(), weights, bias, *ENDS)(IMAGES)[:, :, 1:-1, 1:-1]
    torch.testing.assert_close(found.flatten(2).transpose(1, 2), whitened[..., [4, 13, 22]])


@pytest.mark.parametrize("window", [0, 3])
def test_preparation_takes_bytes_and_keeps_their_shape(window):
    moments = PatchMoments.of(extract_patches(IMAGES.float(), 3))
    weights, bias = (part.float() for part in whitening_filters(moments, 3, 0.1))
    found = Preparation(window, torch.tensor(1.0), weights, bias, *ENDS)(IMAGES.byte())
    assert found.shape == IMAGES.shape and found.dtype == torch.float32
