"""Labels of classes in JSON: their names, and the type that turns names into labels again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ConfigError

KINDS = "biufU"  # of NumPy's types, and objects that are all text or all whole numbers


def label_type(labels: NDArray[Any] | Sequence[str]) -> dict[str, str]:
    """Return the type of labels that are no text, as a fact about the model.

    Examples
    --------
    >>> label_type(np.array([3, 7])), label_type(["cat", "dog"])
    ({'label_type': '<i8'}, {})
    """
    values = np.asarray(labels)
    if values.dtype.kind == "O" and all(isinstance(label, str) for label in values):
        return {"label_type": "|O"}
    if values.dtype.kind == "O" and all(type(label) is int for label in values):
        values = values.astype(np.int64)
    if values.dtype.kind not in KINDS:
        raise ConfigError(f"labels must be numbers, bools or text to be saved, got {type(values.flat[0]).__name__}.")
    return {} if values.dtype.kind == "U" else {"label_type": values.dtype.str}


def read_labels(class_names: Sequence[str], kind: str | None) -> NDArray[Any]:
    """Return the labels of classes with these names; raise ValueError unless they are of this type.

    Examples
    --------
    >>> read_labels(("False", "True"), "|b1").tolist(), read_labels(("3", "7"), "<i8").tolist()
    ([False, True], [3, 7])
    """
    names = np.array(class_names)
    if kind is None:
        return names
    try:
        dtype = np.dtype(kind)
        if dtype.kind in "biufO":
            return names == "True" if dtype.kind == "b" else names.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"label_type must be the type of the class names, got {kind!r}.")
