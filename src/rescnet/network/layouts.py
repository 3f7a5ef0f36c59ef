"""Layouts of images in arrays: with or without channels, channels first or last, or flat rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ConfigError, DataError
from .inputs import USUAL_CHANNELS

Channels = Literal["none", "first", "last"]
ChannelRule = Literal["auto", "first", "last"]

ENLARGED_SIDE = 8  # pixels: the side of the digits, the smallest images the presets are made for
LONGEST_LINE = 64  # columns: longer rows that are no square need an image_shape


@dataclass(frozen=True)
class ImageLayout:
    """Order of height, width and channels in one image."""

    shape: tuple[int, ...]  # of one image in ``X``: (height, width), (height, width, channels) or (channels, …)
    channels: Channels
    enlarges: bool = True  # images with a side under 8 pixels, by repeating pixels

    @property
    def numbers(self) -> int:
        """Numbers per image."""
        return prod(self.shape)

    @property
    def enlargement(self) -> tuple[int, int]:
        """Repetitions of rows and columns of pixels, so that both sides have at least 8 pixels."""
        if not self.enlarges:
            return 1, 1
        _, height, width = self.channels_first
        return -(-ENLARGED_SIDE // height), -(-ENLARGED_SIDE // width)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of the network's images, after enlargement."""
        channels, height, width = self.channels_first
        return channels, height * self.enlargement[0], width * self.enlargement[1]

    def matches(self, shape: tuple[int, ...]) -> bool:
        """Return whether images have the layout or are flat rows; grey ones may have an axis of channels."""
        channels, height, width = self.channels_first
        grey = {(height, width), (1, height, width), (height, width, 1)} if channels == 1 else set()
        return shape in {self.shape, (self.numbers,), *grey}

    def to_images(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return images (n, channels, height, width) from an array (n, …) of this layout or of flat rows.

        It is a view of ``X`` if no enlargement is needed.
        """
        images = X.reshape(len(X), *self.shape)
        if self.channels == "none":
            images = images[:, None]
        elif self.channels == "last":
            images = images.transpose(0, 3, 1, 2)
        return self.enlarged(images)

    def enlarged(self, images: NDArray[Any]) -> NDArray[Any]:
        """Return images (n, channels, height, width) of which both sides have at least 8 pixels."""
        for axis, times in zip((2, 3), self.enlargement, strict=True):
            images = images.repeat(times, axis) if times > 1 else images
        return images

    def from_channels_first(self, images: NDArray[Any]) -> NDArray[Any]:
        """Return images (n, channels, height, width), not enlarged, in this layout."""
        if self.channels == "none":
            return images[:, 0]
        return images.transpose(0, 2, 3, 1) if self.channels == "last" else images

    @property
    def channels_first(self) -> tuple[int, int, int]:
        """(channels, height, width) of the images in ``X``."""
        if self.channels == "none":
            return 1, self.shape[0], self.shape[1]
        if self.channels == "first":
            return self.shape[0], self.shape[1], self.shape[2]
        return self.shape[2], self.shape[0], self.shape[1]


def find_layout(array_shape: tuple[int, ...], image_shape: Sequence[int] | None, channels: ChannelRule) -> ImageLayout:
    """Return the layout of the images in an array; raise ValueError if there is none.

    ``image_shape`` is that of one image, for flat rows; by default :func:`shape_of_row`. ``channels`` is their axis in
    an image with three axes. ``"auto"`` is the last axis if it has 1, 3 or 4 entries, else the first if it has.

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
        raise ConfigError(f"channels must be auto, first or last, got {channels!r}.")
    given = array_shape[1:]
    if len(given) not in (1, 2, 3) or 0 in given:
        raise DataError(
            f"X must be images (n, height, width), (n, height, width, channels) or (n, channels, height, width), or "
            f"flat rows, got shape {array_shape}. Reshape your data."
        )
    if image_shape is not None:
        wanted = _checked_shape(image_shape)
        if given not in (wanted, (prod(wanted),)):
            raise ConfigError(
                f"image_shape must match X of shape {array_shape}, got {wanted}, {prod(wanted)} numbers per image."
            )
        given = wanted
    elif len(given) == 1:
        given = shape_of_row(given[0])
    return ImageLayout(given, _find_channels(given, channels))


def read_layout(facts: Any, image_shape: tuple[int, int, int]) -> ImageLayout:
    """Return the layout of a network's images (channels, height, width) from facts about its training images.

    Without facts they are (channels, height, width) too. ValueError says if the facts are of other images.
    """
    if facts is None:
        return ImageLayout(image_shape, "first", enlarges=False)
    shape, channels = facts.get("shape"), facts.get("channels")
    sides = 2 if channels == "none" else 3
    is_valid = channels in get_args(Channels) and isinstance(shape, list) and len(shape) == sides
    if is_valid and all(type(side) is int and side > 0 for side in shape):
        layout = ImageLayout(tuple(shape), channels)
        if layout.image_shape == image_shape:
            return layout
    raise ConfigError(f"preprocessing.layout must be that of images of {image_shape}, got {facts!r:.60}.")


def shape_of_row(columns: int) -> tuple[int, int]:
    """Return (height, width) of flat rows without an ``image_shape``, which are grey images.

    A square number of columns is a square image. Any other number up to 64 is an image of one line of pixels. Longer
    rows are an error: they are probably colour or oblong images, and a wrong guess would go unnoticed.
    """
    side = isqrt(columns)
    if side * side == columns:
        return side, side
    if columns <= LONGEST_LINE:
        return 1, columns
    third = isqrt(columns // 3)
    guess = f"({third}, {third}, 3)" if 3 * third * third == columns else "(height, width)"
    raise ConfigError(
        f"image_shape must be set for rows of {columns} columns, which are no square images. Use e.g. "
        f"image_shape={guess}, or (1, {columns}) for lines."
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
    raise ConfigError(
        f"channels must be 'first' or 'last' for images of shape {shape}, where neither axis has 1, 3 or 4 entries."
    )


def _checked_shape(image_shape: Any) -> tuple[int, ...]:
    try:
        shape = tuple(int(side) for side in image_shape)
        good = len(shape) in (2, 3) and min(shape) > 0 and bool(np.all(np.equal(shape, image_shape)))
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ConfigError(f"image_shape must be two or three sides, e.g. (28, 28) or (32, 32, 3), got {image_shape!r}.")
    return shape
