"""How images lie in the arrays people have: with or without channels, channels first or last, flat rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..network.inputs import USUAL_CHANNELS

Channels = Literal["none", "first", "last"]
ChannelRule = Literal["auto", "first", "last"]

LEAST_SIDE = 8  # pixels: the side of the digits, the smallest images the presets are made for
LONGEST_LINE = 64  # columns: a row that is no square and longer than this has to be explained


@dataclass(frozen=True)
class ImageLayout:
    """Where height, width and channels are in one image.

    Attributes
    ----------
    shape : tuple of int
        One image as it is given: (height, width), (height, width, channels) or (channels, height, width).
    channels : {"none", "first", "last"}
    """

    shape: tuple[int, ...]
    channels: Channels

    @property
    def numbers(self) -> int:
        """Return how many numbers an image has."""
        return prod(self.shape)

    @property
    def enlargement(self) -> tuple[int, int]:
        """Return how often rows and columns of pixels are repeated, so that no side has fewer than 8 pixels."""
        _, height, width = self._channels_first
        return -(-LEAST_SIDE // height), -(-LEAST_SIDE // width)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Return (channels, height, width) of the images a network sees, after enlargement."""
        channels, height, width = self._channels_first
        return channels, height * self.enlargement[0], width * self.enlargement[1]

    def to_images(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return images (n, channels, height, width) from an array (n, …) of this layout or of flat rows.

        It is a view of ``X`` wherever nothing has to be enlarged.
        """
        images = X.reshape(len(X), *self.shape)
        if self.channels == "none":
            images = images[:, None]
        elif self.channels == "last":
            images = images.transpose(0, 3, 1, 2)
        for axis, times in zip((2, 3), self.enlargement, strict=True):
            images = images.repeat(times, axis) if times > 1 else images
        return images

    @property
    def _channels_first(self) -> tuple[int, int, int]:
        if self.channels == "none":
            return 1, self.shape[0], self.shape[1]
        if self.channels == "first":
            return self.shape[0], self.shape[1], self.shape[2]
        return self.shape[2], self.shape[0], self.shape[1]


def find_layout(array_shape: tuple[int, ...], image_shape: Sequence[int] | None, channels: ChannelRule) -> ImageLayout:
    """Return the layout of the images in an array, or refuse it in one sentence.

    Parameters
    ----------
    array_shape : tuple of int
        (n, columns), (n, height, width), (n, height, width, channels) or (n, channels, height, width).
    image_shape : sequence of int, optional
        The shape of one image: what flat rows are unfolded into. Without it :func:`shape_of_row` decides.
    channels : {"auto", "first", "last"}
        Where channels are in an image with three axes. ``"auto"``: last if that axis has 1, 3 or 4 entries; else first
        if that one has; else the image is refused.

    Examples
    --------
    >>> find_layout((1797, 64), None, "auto").image_shape
    (1, 8, 8)
    >>> find_layout((50000, 3072), (3, 32, 32), "auto").image_shape
    (3, 32, 32)
    >>> find_layout((50000, 32, 32, 3), None, "auto").channels
    'last'
    """
    if channels not in ("auto", "first", "last"):
        raise ValueError(f"channels is {channels!r}: choose auto, first or last.")
    given = array_shape[1:]
    if len(given) not in (1, 2, 3) or 0 in given:
        raise ValueError(
            f"X has shape {array_shape}: give images as (n, height, width), (n, height, width, channels), "
            f"(n, channels, height, width) or flat rows; Reshape your data, a single image into a batch of one."
        )
    if image_shape is not None:
        wanted = _checked_shape(image_shape)
        if given not in (wanted, (prod(wanted),)):
            raise ValueError(
                f"image_shape {wanted} means {prod(wanted)} numbers an image but X has shape {array_shape}: "
                f"correct one of them."
            )
        given = wanted
    elif len(given) == 1:
        given = shape_of_row(given[0])
    return ImageLayout(given, _find_channels(given, channels))


def shape_of_row(columns: int) -> tuple[int, int]:
    """Return (height, width) of the grey image a flat row is taken for when nobody says.

    A square number of columns is a square image; any other number up to 64 an image of a single line of pixels.
    Longer rows are refused: most likely they are colour or oblong images, and a guess would quietly spoil them.
    """
    side = isqrt(columns)
    if side * side == columns:
        return side, side
    if columns <= LONGEST_LINE:
        return 1, columns
    third = isqrt(columns // 3)
    guess = f"({third}, {third}, 3)" if 3 * third * third == columns else "(height, width)"
    raise ValueError(
        f"rows of {columns} columns are no square images: say what they are, as image_shape={guess}, "
        f"or image_shape=(1, {columns}) if they are lines."
    )


def _find_channels(shape: tuple[int, ...], rule: ChannelRule) -> Channels:
    if len(shape) == 2:
        return "none"
    if rule != "auto":
        return rule
    if shape[2] in USUAL_CHANNELS:
        return "last"
    if shape[0] in USUAL_CHANNELS:
        return "first"
    raise ValueError(
        f"images of shape {shape} have 1, 3 or 4 channels neither first nor last: say channels='first' or 'last'."
    )


def _checked_shape(image_shape: Any) -> tuple[int, ...]:
    try:
        shape = tuple(int(side) for side in image_shape)
        good = len(shape) in (2, 3) and min(shape) > 0 and bool(np.all(np.equal(shape, image_shape)))
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(f"image_shape is {image_shape!r}: give two or three sides, as (28, 28) or (32, 32, 3).")
    return shape
