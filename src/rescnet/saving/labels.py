"""Labels of classes in JSON: their names, and the type that turns names into labels again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError

KINDS = {"b", "i", "u", "f", "O"}  # of NumPy's types; all other labels become text


def label_type(labels: NDArray[Any] | Sequence[str]) -> dict[str, str]:
    """Return the type of labels that are no text, as a fact about the model.

    Examples
    --------
    >>> label_type(np.array([3, 7])), label_type(["cat", "dog"])
    ({'label_type': '<i8'}, {})
    """
    array = np.asarray(labels)
    of_text = array.dtype.kind == "O" and not all(isinstance(label, str) for label in array)
    return {} if array.dtype.kind not in KINDS or of_text else {"label_type": array.dtype.str}


def read_labels(class_names: Sequence[str], kind: str | None) -> NDArray[Any]:
    """Return the labels of classes with these names; raise ValueError for a type that :func:`label_type` has not.

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
    except TypeError:
        dtype = np.dtype("V")
    if dtype.kind not in KINDS:
        raise ConfigError(f"label_type must be the type of whole numbers, floats, bools or objects, got {kind!r}.")
    return names == "True" if dtype.kind == "b" else names.astype(dtype)
