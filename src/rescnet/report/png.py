"""Pictures as PNG data URIs, written with the standard library alone."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""(h, w) grey or (h, w, 3) colour."""

# Blue for negative, white for zero, vermilion for positive: told apart by every kind of colour vision.
NEGATIVE, ZERO, POSITIVE = np.array([0, 90, 170.0]), np.array([250, 250, 250.0]), np.array([200, 75, 0.0])


def data_uri(pixels: Pixels) -> str:
    """Return a picture as a ``data:image/png`` address.

    Parameters
    ----------
    pixels : ndarray of uint8, shape (h, w) or (h, w, 3)

    Examples
    --------
    >>> data_uri(np.zeros((2, 2), np.uint8))[:22]
    'data:image/png;base64,'
    """
    height, width = pixels.shape[:2]
    colour_type = 2 if pixels.ndim == 3 else 0
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    unfiltered = np.pad(rows, ((0, 0), (1, 0)))  # each row begins with the number of its filter: 0, none
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    body = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(unfiltered.tobytes(), 9)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def thumbnail(image: NDArray[Any], low: float, high: float, most: int = 128) -> Pixels:
    """Return an image as pixels, made smaller by a whole factor if a side is longer than ``most``.

    Parameters
    ----------
    image : ndarray, shape (c, h, w)
        uint8 is taken as it is; other values have ``low`` as black and ``high`` as white.
    """
    values = image.astype(np.float64)
    if image.dtype != np.uint8:
        values = 255 * (values - low) / ((high - low) or 1.0)
    factor = -(-max(values.shape[1:]) // most)
    if factor > 1:
        c, h, w = values.shape[0], values.shape[1] // factor, values.shape[2] // factor
        values = values[:, : h * factor, : w * factor].reshape(c, h, factor, w, factor).mean((2, 4))
    pixels = np.rint(values).clip(0, 255).astype(np.uint8)
    return pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)


def diverging(values: NDArray[Any], limit: float) -> Pixels:
    """Colour signed values (h, w): blue at ``-limit``, white at 0, vermilion at ``limit``. Returns (h, w, 3)."""
    share = (np.asarray(values, np.float64) / (limit or 1.0)).clip(-1, 1)[..., None]
    colours = np.where(share < 0, ZERO + share * (ZERO - NEGATIVE), ZERO + share * (POSITIVE - ZERO))
    pixels: Pixels = np.rint(colours).astype(np.uint8)
    return pixels


def heat(values: NDArray[Any], limit: float) -> Pixels:
    """Colour values (h, w) from white at 0 to a deep blue at ``limit``. Returns (h, w, 3)."""
    return diverging(-np.asarray(values, np.float64), limit)


def stretched(values: NDArray[Any], low: float | None = None) -> Pixels:
    """Return values (h, w) as grey pixels: the least, or ``low``, black, the greatest white."""
    values = np.asarray(values, np.float64)
    least = float(values.min()) if low is None else low
    spread = float(values.max()) - least
    pixels: Pixels = np.rint(255 * (values - least).clip(0) / (spread if spread > 0 else 1.0)).astype(np.uint8)
    return pixels


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
