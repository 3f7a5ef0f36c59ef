"""CIFAR's Python version: pickled dictionaries, read without unpickling them.

A pickle is a program that can call any function. Nothing of it runs here: :mod:`pickletools` lists its steps. The texts
and numbers among them, in their order, are enough, because the content of CIFAR's files is known.
"""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError
from ..base.files import open_regular

_MAX_BYTES = 200_000_000
"""The largest official file, CIFAR-100's training set, has 155 million bytes."""
_VALUES = "INT", "INT1", "INT2", "LONG1", "STRING", "UNICODE", "BYTES"
"""Endings of the opcodes that have a number or a text."""
_ENCODING = "latin1"
"""A text beside the bytes that Python 3 writes for Python 2."""


def read_values(path: Path) -> list[Any]:
    """Read the texts, numbers and booleans of a pickled file; None is the end of a list or of a part of it."""
    with open_regular(path) as file:
        data = file.read(_MAX_BYTES)
    values: list[Any] = []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name.endswith(_VALUES):
                values.append(argument.decode("latin-1") if isinstance(argument, bytes) else argument)
            elif opcode.name in ("APPEND", "APPENDS"):
                values.append(None)
            elif opcode.name in ("NEWFALSE", "NEWTRUE"):
                values.append(opcode.name == "NEWTRUE")
    except ValueError as error:
        raise DataError(f"{path} is damaged or not a CIFAR file ({error}). Download it again.") from error
    return values


def list_of(path: Path, values: list[Any], key: str) -> list[Any]:
    """Return the list under a key: all values up to a text behind the end of a list, which is the next key."""
    if key not in values:
        raise DataError(f"{path} must have an entry {key!r}, got none. It belongs to another data set.")
    items: list[Any] = []
    ended = False
    for value in values[values.index(key) + 1 :]:
        if value is None:
            ended = True
        elif ended and isinstance(value, str):
            break
        elif value != _ENCODING:
            items.append(value)
    return items


def pixels_of(path: Path, values: list[Any], shape: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Return the pixels (n, 3072): the longest text, in which a character is a byte.

    The boolean before it is true for an array in Fortran order.
    """
    texts = [number for number, value in enumerate(values) if isinstance(value, str)]
    longest = max(texts, key=lambda number: len(values[number]))
    order: Any = "F" if values[longest - 1] is True else "C"
    try:
        return np.frombuffer(values[longest].encode("latin-1"), np.uint8).reshape(shape, order=order)
    except ValueError as error:
        raise DataError(f"{path} must have data of shape {shape}, got other data. Download it again.") from error
