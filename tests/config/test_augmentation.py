"""Augmentations read from text."""

from __future__ import annotations

import pytest

from rescnet.config.augmentation import Augmentation


def test_changes_are_read_in_any_order():
    expected = Augmentation(flip=True, shift=2, rotate=7.5, jitter=0.1)
    assert Augmentation.parse("flip + shift 2 + rotate 7.5 + jitter 0.1") == expected
    assert Augmentation.parse("jitter 0.1+rotate 7.5  + flip + shift 2") == expected
    assert Augmentation.parse(" ") == Augmentation()
    assert expected.is_random and not Augmentation.parse("flip").is_random


@pytest.mark.parametrize("text", ["flop", "flip 2", "shift", "shift 1.5", "rotate 0", "shift -1", "+", "rotate x"])
def test_unreadable_changes_are_refused(text):
    with pytest.raises(ValueError, match=r"augmentation must be a list, e\.g\. 'flip"):
        Augmentation.parse(text)


def test_too_large_and_repeated_changes_are_refused():
    with pytest.raises(ValueError, match="jitter must be at most 1, got 2 in 'jitter 2'"):
        Augmentation.parse("jitter 2")
    with pytest.raises(ValueError, match="augmentation must name each change once, got flip twice"):
        Augmentation.parse("flip + flip")


def test_predictions_are_not_averaged_over_rotations():
    with pytest.raises(ValueError, match="test_views must be flips and shifts only"):
        Augmentation.parse("rotate 5").views()
