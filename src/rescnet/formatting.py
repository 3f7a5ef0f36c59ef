"""Text of numbers, bytes, durations and accuracies, suggestions for misspelt names, and atomic writes of files."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from math import sqrt
from pathlib import Path
from typing import Any
from uuid import uuid4

BETTER_BY = 0.1  # share of errors by which the whole network may be better than its leave-one-out outputs
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
        raise ValueError(f"memory must be a number with a unit, e.g. 500MB, 16GB or 16GiB, got {text!r}.")
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
        raise ValueError(f"time_limit must be a positive number of s, m or h, e.g. 90s or 10m, got {text!r}.")
    return found


def show_percent(share: float | None) -> str:
    """Return a fraction of 1 in percent with two decimals; a dash for None."""
    return "–" if share is None else f"{100 * share:.2f}"


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
        raise ValueError(f"{what} must be one of {', '.join(known)}, got {name!r}.{nearest(name, known)}")


def check_new_file(path: Path, overwrite: bool, *endings: str, how: str = "overwrite=True") -> None:
    """Raise ValueError if a file cannot or must not be written there; ``how`` is the way to replace one."""
    if endings and path.suffix.lower() not in endings:
        known = " or ".join(", ".join(endings).rsplit(", ", 1))
        raise ValueError(f"path must end in {known}, got {path}.")
    if path.is_dir():
        raise ValueError(f"path must be a file, got the folder {path}. Name a file in it.")
    if not path.parent.is_dir():
        raise ValueError(f"path must be in an existing folder, got {path}. Create the folder {path.parent}.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"path must be in a writable folder, got {path}. Use another place.")
    if path.exists() and not overwrite:
        raise ValueError(f"path must be a new file, got {path}. Use another name, or {how}.")


@contextmanager
def atomic_write(path: Path, beside: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and rename the file there to ``path`` if no error occurs.

    Readers of ``path`` see the old file or the complete new one, and an error leaves the old file as it was. Each
    writer has a temporary file of its own, unless ``beside`` names it.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with atomic_write(target) as path:
    ...     _ = path.write_text("complete")
    >>> target.read_text(), [file.name for file in target.parent.iterdir()]
    ('complete', ['a.txt'])
    """
    beside = beside or path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
