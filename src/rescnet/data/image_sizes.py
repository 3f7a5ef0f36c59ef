"""The size that the images of a folder are fitted to, and phrases about it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Size = tuple[int, int]  # (h, w)
LARGEST_SIDE = 64
_LEAST_SIDE = 8  # of an image that was made smaller


def choose_size(sizes: Mapping[Size, int]) -> Size:
    """Return the (h, w) that images are fitted to, from the number of images of each size.

    Images of one size keep it, or are made smaller until no side exceeds 64 pixels. Images of several sizes become
    squares with their median short side, at most 64.

    Examples
    --------
    >>> choose_size({(32, 48): 10}), choose_size({(3000, 4000): 10}), choose_size({(30, 40): 5, (90, 60): 6})
    ((32, 48), (48, 64), (60, 60))
    """
    if len(sizes) > 1:
        short_sides = np.repeat([min(size) for size in sizes], list(sizes.values()))
        side = min(int(np.median(short_sides)), LARGEST_SIDE)
        return side, side
    ((h, w),) = sizes
    scale = min(1, LARGEST_SIDE / max(h, w))
    return max(round(scale * h), min(h, _LEAST_SIDE)), max(round(scale * w), min(w, _LEAST_SIDE))


def describe_sizes(sizes: Mapping[Size, int]) -> str:
    """Return a phrase about the sizes of images.

    Examples
    --------
    >>> describe_sizes({(32, 48): 10}), describe_sizes({(90, 60): 6, (30, 40): 5})
    ('32×48', '2 sizes from 30×40 to 90×60')
    """
    ordered = [f"{h}×{w}" for h, w in sorted(sizes, key=lambda size: (size[0] * size[1], size))]
    return ordered[0] if len(ordered) == 1 else f"{len(ordered):,} sizes from {ordered[0]} to {ordered[-1]}"


def fit_notes(sizes: Mapping[Size, int], size: Size) -> list[str]:
    """Return a phrase about images that are fitted to a size; none if all have it."""
    fitted = f"images are resized and centre-cropped to {size[0]}×{size[1]} (height×width)"
    return [] if set(sizes) == {size} else [f"{fitted}; found {describe_sizes(sizes)}"]
