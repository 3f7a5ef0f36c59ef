"""Intervals of accuracies, and their text."""

from __future__ import annotations

from math import sqrt

BETTER_BY = 0.1  # share of errors by which the whole network may be better than its leave-one-out outputs


def wilson_interval(share: float, images: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of an accuracy, a fraction of 1, measured on n images.

    Examples
    --------
    >>> [round(end, 4) for end in wilson_interval(0.9, 100)]
    [0.8256, 0.9448]
    """
    z = 1.959964  # 97.5 % of a normal distribution are below
    spread = z / (1 + z * z / images) * sqrt(share * (1 - share) / images + (z / (2 * images)) ** 2)
    centre = (share + z * z / (2 * images)) / (1 + z * z / images)
    return max(0.0, centre - spread), min(1.0, centre + spread)


def left_out_interval(share: float, images: int) -> tuple[float, float]:
    """Return the interval that the accuracy on new images is expected in, from the leave-one-out accuracy of n images.

    It is Wilson's, with an upper end that allows for a tenth fewer errors: heads and metric have no part in
    leave-one-out outputs.

    Examples
    --------
    >>> [round(end, 4) for end in left_out_interval(0.9, 100)]
    [0.8256, 0.9548]
    """
    low, high = wilson_interval(share, images)
    return low, min(1.0, high + BETTER_BY * (1 - share))


def show_interval(share: float, images: int) -> str:
    """Return the 95 % interval of an accuracy as text, in percent.

    Examples
    --------
    >>> show_interval(0.9, 10_000)
    '89.4 to 90.6 %'
    """
    low, high = wilson_interval(share, images)
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def show_left_out(accuracy: float, images: int) -> str:
    """Return a sentence about the leave-one-out accuracy of n training images, with markup.

    Examples
    --------
    >>> show_left_out(0.9, 100)
    'leave-one-out accuracy of 100 training images: [bold]90.00 %[/bold] (95 % interval for new images: 82.6 to 95.5 %)'
    """
    low, high = left_out_interval(accuracy, images)
    return (
        f"leave-one-out accuracy of {images:,} training images: [bold]{100 * accuracy:.2f} %[/bold] "
        f"(95 % interval for new images: {100 * low:.1f} to {100 * high:.1f} %)"
    )
