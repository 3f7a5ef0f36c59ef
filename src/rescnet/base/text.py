"""Text of numbers, bytes and durations, and suggestions for misspelt names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

from .errors import ConfigError

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_bytes(text: str) -> int:
    """Return the bytes of a text with a unit.

    Examples
    --------
    >>> parse_bytes("16GB"), parse_bytes("1.5 GiB"), parse_bytes("4096")
    (16000000000, 1610612736, 4096)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", text.upper())
    if not match or match[2] not in UNITS or float(match[1]) <= 0:
        raise ConfigError(f"max_memory must be a number with a unit, e.g. 500MB, 16GB or 16GiB, got {text!r}.")
    return int(float(match[1]) * UNITS[match[2]])


def show_bytes(count: float) -> str:
    """Return bytes as text, in the unit that fits.

    Examples
    --------
    >>> show_bytes(1_340_000_000), show_bytes(999_900)
    ('1.34 GB', '1 MB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB", "PB", "EB"):
        if count < 999.5 or unit == "EB":  # 999.5 rounds to 1000, which is 1 of the next unit
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def count(number: int, one: str, many: str) -> str:
    """Return a number with its noun, e.g. "1 layer" or "2 layers".

    Examples
    --------
    >>> count(1, "layer", "layers"), count(1200, "layer", "layers")
    ('1 layer', '1,200 layers')
    """
    return f"{number:,} {one if number == 1 else many}"


def show_shape(shape: tuple[int, int, int]) -> str:
    """Return the shape of an image (channels, height, width) as height×width×channels.

    Examples
    --------
    >>> show_shape((3, 32, 48))
    '32×48×3'
    """
    channels, height, width = shape
    return f"{height}×{width}×{channels}"


def show_seconds(seconds: float) -> str:
    """Return a duration as text.

    Examples
    --------
    >>> show_seconds(7.26), show_seconds(65), show_seconds(3720), show_seconds(200_000)
    ('7.3 s', '1 min 05 s', '1 h 02 min', '2 days 7 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60} min {int(seconds) % 60:02} s"
    hours = int(seconds) // 3600
    if hours < 48:
        return f"{hours} h {int(seconds) % 3600 // 60:02} min"
    return f"{hours // 24} days {hours % 24} h"


def parse_seconds(text: str) -> float:
    """Read a time in seconds, minutes or hours.

    Examples
    --------
    >>> parse_seconds("90"), parse_seconds("60s"), parse_seconds("1.5 m"), parse_seconds("2h")
    (90.0, 60.0, 90.0, 7200.0)
    """
    number, unit = text.strip().lower(), 1
    for ending, seconds in {"min": 60, "s": 1, "m": 60, "h": 3600}.items():
        if number.endswith(ending):
            number, unit = number.removesuffix(ending), seconds
            break
    try:
        found = float(number) * unit
    except ValueError:
        found = 0.0
    if not 0 < found < 1e9:
        raise ConfigError(f"time_limit must be a positive number of s, m or h, e.g. 90s or 10m, got {text!r}.")
    return found


def show_percent(share: float | None) -> str:
    """Return a fraction of 1 in percent with two decimals; a dash for None."""
    return "–" if share is None else f"{100 * share:.2f}"


def nearest(name: Any, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return " Did you mean ...?" with the most similar known name; empty if none is similar.

    Examples
    --------
    >>> nearest("ldaa", ["lda", "ridge"])
    " Did you mean 'lda'?"
    """
    near = get_close_matches(str(name), list(known), 1, cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""


def check_known(what: str, name: str, known: Collection[str]) -> None:
    """Raise ValueError for a name that is not one of the known ones."""
    if name not in known:
        raise ConfigError(f"{what} must be one of {', '.join(known)}, got {name!r}.{nearest(name, known)}")
