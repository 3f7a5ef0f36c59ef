"""Copies of images against loops over pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rescnet.config.grammars import Augmentation
from rescnet.stages.augment import (
    COLOUR,
    CONTRAST,
    TURN,
    change_images,
    changes_of_views,
    draw_changes,
    mean_of_views,
    view_images,
)


def naive_move(image, flip, down, right):
    """Mirror, then move with the border repeated, pixel by pixel; image is (c, h, w)."""
    _, h, w = image.shape
    found = np.empty_like(image)
    for y in range(h):
        for x in range(w):
            row, column = min(max(y - down, 0), h - 1), min(max(x - right, 0), w - 1)
            found[:, y, x] = image[:, row, w - 1 - column if flip else column]
    return found


@pytest.fixture
def images(generator):
    return torch.randint(0, 256, (12, 3, 7, 5), generator=generator, dtype=torch.uint8)


def test_flips_and_shifts_move_pixels(images):
    augmentation = Augmentation.parse("flip + shift 2")
    changes = draw_changes(augmentation, 3, 3, 3, seed=1)  # (3 images, 4, numbers)
    found = change_images(images, changes.flatten(0, 1))
    for image, copy, change in zip(images.numpy(), found.numpy(), changes.flatten(0, 1).tolist(), strict=True):
        np.testing.assert_array_equal(copy, naive_move(image, change[0] > 0, int(change[1]), int(change[2])))
    assert changes[:, :, 0].tolist() == [[0, 1, 0, 1]] * 3
    assert (changes[:, 0] == 0).all()  # the image itself
    shifts = draw_changes(augmentation, 500, 1, 3, seed=0)[:, 1, 1:3]
    assert set(shifts.flatten().tolist()) == {-2.0, -1.0, 0.0, 1.0, 2.0}
    assert shifts.abs().mean() == pytest.approx(1.2, abs=0.1)


def test_a_quarter_turn_is_a_quarter_turn(generator):
    square = torch.rand(2, 3, 6, 6, generator=generator, dtype=torch.float64)
    changes = torch.zeros(2, COLOUR + 3)
    changes[1, TURN] = np.pi / 2
    found = change_images(square, changes)
    assert torch.equal(found[0], square[0])
    turned = [torch.rot90(square[1], k, (1, 2)) for k in (1, 3)]
    assert min(float((found[1] - way).abs().max()) for way in turned) < 1e-6


def test_colours_change_by_the_given_fraction(generator):
    images = torch.rand(2, 3, 4, 4, generator=generator, dtype=torch.float64)
    changes = torch.zeros(2, COLOUR + 3)
    changes[1, CONTRAST], changes[1, COLOUR:] = 0.5, torch.tensor([0.1, -0.2, 0.0])
    found = change_images(images, changes)
    assert torch.equal(found[0], images[0])
    for channel, strength in enumerate((1.1, 0.8, 1.0)):
        wanted = ((images[1, channel] - images[1].mean()) * 1.5 + images[1].mean()) * strength
        np.testing.assert_allclose(found[1, channel], wanted, rtol=1e-6)
    drawn = draw_changes(Augmentation.parse("jitter 0.2"), 300, 1, 3, seed=0)[:, 1, CONTRAST:]
    assert 0.19 < drawn.abs().max() <= 0.2


def test_whole_numbers_stay_whole_and_in_range(images):
    changes = draw_changes(Augmentation.parse("rotate 30 + jitter 0.9"), 4, 2, 3, seed=3)
    found = change_images(images, changes.flatten(0, 1))
    assert found.dtype == torch.uint8
    assert torch.equal(found[::3], images[::3])
    assert not torch.equal(found[1], images[1])


def test_a_copy_does_not_depend_on_its_batch(images, generator):
    changes = draw_changes(Augmentation.parse("flip + shift 1 + rotate 10 + jitter 0.1"), 6, 1, 3, seed=3).flatten(0, 1)
    for kind in (images, torch.rand(images.shape, generator=generator)):
        whole = change_images(kind, changes)
        for number in range(12):
            alone = change_images(kind[number : number + 1], changes[number : number + 1])
            torch.testing.assert_close(alone[0], whole[number], rtol=0, atol=1e-6)


def test_drawing_is_repeated_by_the_seed():
    augmentation = Augmentation.parse("shift 3 + rotate 5")
    first = draw_changes(augmentation, 50, 2, 1, seed=4)
    assert torch.equal(first, draw_changes(augmentation, 50, 2, 1, seed=4))
    assert not torch.equal(first, draw_changes(augmentation, 50, 2, 1, seed=5))


def test_views_are_changes_without_chance(images):
    views = Augmentation.parse("flip + shift 2").views()
    assert len(views) == len(set(views)) == 10 and views[0] == (False, 0, 0)
    changes = changes_of_views(views, 3)[0]
    for view, change in zip(views, changes, strict=True):
        assert torch.equal(view_images(images, view), change_images(images, change.expand(len(images), -1)))
    assert Augmentation.parse("").views() == [(False, 0, 0)]
    outputs = torch.arange(12.0).view(6, 2)
    assert mean_of_views(outputs, 3).tolist() == [[4, 5], [6, 7]]
