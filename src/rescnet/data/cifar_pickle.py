"""CIFAR's Python version: pickled dictionaries, read by an unpickler that can build those and nothing else.

A pickle is a program, and the usual unpickler lets it call any function there is. This one calls none but
the three small methods below, which stand in for the names the authors' files mention (``_reconstruct``,
``ndarray`` and ``dtype`` of NumPy, and ``encode``, by which Python 3 writes bytes); numpy's own are not
used, because a forged dtype handed to them can corrupt memory. Any other name is refused before anything
happens. A forged file can so at worst use up memory; it cannot run anything.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .errors import DataError

_RECONSTRUCT = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")}
_LARGEST_FILE = 200_000_000
"""Bytes; the largest official file, CIFAR-100's training set, has 155 million."""


def read_cifar_pickle(path: Path) -> dict[str, Any]:
    """Read one pickled dictionary of CIFAR's Python version.

    Parameters
    ----------
    path : Path
        ``data_batch_1``, ``test_batch``, ``batches.meta``, ``train``, ``test`` or ``meta``.

    Returns
    -------
    dict
        Keyed by str; values are uint8 arrays, lists of int, str, or bytes as the file has them.

    Raises
    ------
    DataError
        If the file is no such dictionary, or asks for anything but lists, numbers, text and byte arrays.
    """
    if path.stat().st_size > _LARGEST_FILE:
        raise DataError(f"{path} has {path.stat().st_size:,} bytes, more than any file of CIFAR: wrong file.")
    try:
        with path.open("rb") as file:
            content = _CifarUnpickler(file).load()
        return {_as_text(key): _plain(value) for key, value in content.items()}
    except _ForbiddenNameError as error:
        raise DataError(
            f"{path} asks to run {error}, which no file of CIFAR needs: nothing of it was run; "
            "do not use this file, fetch CIFAR's binary version."
        ) from None
    except Exception as error:  # damaged pickles raise nearly anything
        raise DataError(f"{path} is damaged or not a file of CIFAR ({error}): fetch it again.") from error


class _ForbiddenNameError(Exception):
    """A name the file asks for and does not get."""


class _PickledDtype:
    """What stands in for a dtype: its code; byte order and the like do not matter to bytes."""

    __slots__ = ("code",)

    def __init__(self, code: str) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Ignore the state: it describes byte order, fields and alignment, which uint8 has none of."""


class _PickledArray:
    """What stands in for an array while its pickle is read: filled by ``__setstate__``, uint8 only."""

    __slots__ = ("array",)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, content = state
        if not isinstance(dtype, _PickledDtype) or dtype.code != "u1":
            raise ValueError("its array is not of unsigned bytes")
        if isinstance(content, str):  # Python 2's byte strings come as Latin-1 text
            content = content.encode("latin-1")
        order: Any = "F" if is_fortran else "C"
        self.array = np.frombuffer(content, np.uint8).reshape(shape, order=order)


class _CifarUnpickler(pickle.Unpickler):
    """An unpickler whose programs can name three methods of this class and a word.

    They are bound methods: the file can call them, but nothing it sets on them changes what they do.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="latin-1")

    def find_class(self, module: str, name: str) -> Any:
        """Give the stand-in for a name the file mentions, or refuse it."""
        if (module, name) in _RECONSTRUCT:
            return self._begin_array
        if (module, name) == ("numpy", "ndarray"):
            return "ndarray"  # only ever handed to _reconstruct
        if (module, name) == ("numpy", "dtype"):
            return self._begin_dtype
        if (module, name) == ("_codecs", "encode"):
            return self._encode
        raise _ForbiddenNameError(f"{module}.{name}")

    def _begin_array(self, *_ignored: object) -> _PickledArray:
        return _PickledArray()

    def _begin_dtype(self, code: object, *_ignored: object) -> _PickledDtype:
        return _PickledDtype(_as_text(code))

    def _encode(self, text: object, encoding: object = "latin1") -> bytes:
        if not isinstance(text, str) or encoding != "latin1":
            raise ValueError(f"it encodes bytes by {encoding!r}, not latin1")
        return text.encode("latin-1")


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, str):
        return value
    raise TypeError(f"{value!r} where a word was expected")


def _plain(value: object) -> object:
    return value.array if isinstance(value, _PickledArray) else value
