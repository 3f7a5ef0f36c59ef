"""CIFAR's Python version: pickled dictionaries, read without executing the pickle.

A pickle is a program, and Python's unpickler lets it call any function. The unpickler below calls only three small
methods. They stand in for the names in the authors' files: ``_reconstruct``, ``ndarray`` and ``dtype`` of NumPy, and
``encode``, by which Python 3 writes bytes. NumPy's own functions are not used: a forged dtype can make them corrupt
memory. Any other name is refused before anything is called. At worst, a forged file fills the memory.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..files import open_regular

_RECONSTRUCT = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")}
_MAX_BYTES = 200_000_000
"""The largest official file, CIFAR-100's training set, has 155 million bytes."""
_MAX_TUPLES = 1000
"""Official files have a dozen."""


def read_cifar_pickle(path: Path) -> dict[str, Any]:
    """Read one pickled dictionary of CIFAR's Python version, e.g. ``data_batch_1`` or ``batches.meta``.

    Returns
    -------
    dict
        Keys are str. Values are uint8 arrays, lists of int, str, or bytes.

    Raises
    ------
    DataError
        If the file is no such dictionary, or asks for anything but lists, numbers, text and byte arrays.
    """
    with open_regular(path) as file:
        data = file.read(_MAX_BYTES)
    try:
        _refuse_traps(data)
        content = _CifarUnpickler(data).load()
        return {
            _as_text(key): value.array if isinstance(value, _PickledArray) else value for key, value in content.items()
        }
    except _ForbiddenNameError as error:
        raise DataError(
            f"{path} asks to run {error}, which no CIFAR file needs. Nothing was run. Do not use this file; "
            "download CIFAR's binary version."
        ) from None
    except Exception as error:  # damaged pickles raise nearly anything
        reason = " ".join(str(error).split())
        raise DataError(f"{path} is damaged or not a CIFAR file ({reason}). Download it again.") from error


def _refuse_traps(data: bytes) -> None:
    """Refuse what makes Python's unpickler fill the memory or overflow the stack; nothing is executed here.

    A memo index allocates a table of that length. Nested tuples as a key are hashed recursively.
    """
    tuples = 0
    for opcode, argument, _ in pickletools.genops(data):
        if "PUT" in opcode.name and int(argument or 0) > len(data):
            raise ValueError(f"memo index {argument}")
        tuples += opcode.name.startswith("TUPLE")
        if tuples > _MAX_TUPLES:
            raise ValueError(f"more than {_MAX_TUPLES} tuples")


class _ForbiddenNameError(Exception):
    """A name in the file that is refused."""


class _PickledDtype:
    """Stand-in for a dtype: its code. Byte order does not matter for bytes."""

    __slots__ = ("code",)

    def __init__(self, code: str) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Ignore the state: byte order, fields and alignment, none of which uint8 has."""


class _PickledArray:
    """Stand-in for a uint8 array, filled by ``__setstate__``."""

    __slots__ = ("array",)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, content = state
        if not isinstance(dtype, _PickledDtype) or dtype.code != "u1":
            raise ValueError("arrays must be uint8")
        if isinstance(content, str):  # byte strings of Python 2 are read as Latin-1 text
            content = content.encode("latin-1")
        order: Any = "F" if is_fortran else "C"
        self.array = np.frombuffer(content, np.uint8).reshape(shape, order=order)


class _CifarUnpickler(pickle.Unpickler):
    """An unpickler whose programs can use three methods of this class and one string.

    They are bound methods: the file can call them, but attributes it sets on them have no effect.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="latin-1")

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for a name in the file, or refuse the name."""
        if (module, name) in _RECONSTRUCT:
            return self._begin_array
        if (module, name) == ("numpy", "ndarray"):
            return "ndarray"  # only an argument of _reconstruct
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
            raise ValueError(f"bytes must be encoded by latin1, got {encoding!r}")
        return text.encode("latin-1")


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, str):
        return value
    raise TypeError(f"keys and codes must be text, got {value!r}")
