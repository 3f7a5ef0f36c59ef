"""Checks of an estimator's input, before any work starts."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from ..config.network import NetworkConfig
from ..network.history import StopReason
from ..network.inputs import InputWarning, how_to_fit
from .automatic import check_warm_start
from .layouts import ImageLayout

CHUNK = 2**22  # numbers that are checked together


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the sorted classes, shape (C,), and the index of each label's class, shape (n,).

    Examples
    --------
    >>> encode_labels(np.array(["cat", "ant", "cat"]))
    (array(['ant', 'cat'], dtype='<U3'), array([1, 0, 1]))
    """
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes, got one class, {classes.tolist()[0]!r}.")
    return classes, labels


def draw_seed(random_state: Any) -> int:
    """Return an int unchanged, as ``seed`` elsewhere; otherwise a number drawn from the random state."""
    source = check_random_state(random_state)
    return int(random_state) if isinstance(random_state, Integral) else int(source.randint(2**31 - 1))


def check_pixels(X: NDArray[Any]) -> None:
    """Raise ValueError for NaN and infinity."""
    if X.dtype.kind != "f":
        return
    step = max(1, CHUNK // X[0].size)
    for start in range(0, len(X), step):
        bad = ~np.isfinite(X[start : start + step]).reshape(-1, X[0].size).all(1)
        if bad.any():
            raise ValueError(
                f"X must have finite pixels, got NaN or infinity, first in image {start + int(bad.argmax())}."
            )


def check_same_images(X: NDArray[Any], layout: ImageLayout, name: str) -> None:
    """Raise ValueError unless an array holds images of the fitted layout, or flat rows of them.

    Parameters
    ----------
    X : array
    layout : ImageLayout
    name : str
        Name of the estimator; scikit-learn prescribes the message about a wrong number of columns.
    """
    if X.ndim < 2:
        raise ValueError(f"X must be a batch of images, got shape {X.shape}. Reshape your data.")
    if X.shape[1:] in (layout.shape, (layout.numbers,)):
        return
    if X.shape == layout.shape:
        raise ValueError(f"X must be a batch, got a single image of shape {X.shape}. Use X[None].")
    if X.ndim == 2:
        raise ValueError(
            f"X has {X.shape[1]} features, but {name} is expecting {layout.numbers} features as input, images of "
            f"{layout.shape}."
        )
    remedy = how_to_fit(X.shape[1:], layout.shape)
    raise ValueError(
        f"X must hold images of shape {layout.shape}, as {name} was fitted on, got {X.shape[1:]}. {remedy}."
    )


def warn_if_none_was_added(before: int, after: int, wanted: int, stopped: StopReason | None) -> None:
    """Warn if a network has stopped by its own rules before the number of layers wanted."""
    if before == after < wanted:
        warnings.warn(
            f"no layer was added: there are {before} of {wanted}, and {stopped}. Use a greater n_iter_no_change, or "
            "options={'stop_at_zero_error': False}.",
            InputWarning,
            stacklevel=3,
        )


def check_grows(fitted: Any, layout: ImageLayout, classes: NDArray[Any], config: NetworkConfig, held: Any) -> None:
    """Raise ValueError if layers cannot be added to a fitted estimator's network with these images.

    Parameters
    ----------
    fitted : ResCNetClassifier
    layout, classes, config
        Layout, classes and options of the new fit.
    held : array of int, or None
        Indices of the new fit's validation images.
    """
    if layout != fitted._layout:
        raise ValueError(
            f"X must hold images of shape {fitted.image_shape_} with warm_start, got {layout.shape}. Use "
            "warm_start=False to fit again."
        )
    if not np.array_equal(classes, fitted.classes_):
        raise ValueError(
            f"y must have the classes {fitted.classes_.tolist()} with warm_start, got {classes.tolist()}. Use "
            "warm_start=False to fit again."
        )
    if (held is None) != (fitted._held is None) or not np.array_equal(held, fitted._held):
        raise ValueError(
            "validation images must stay the same with warm_start. Keep X, y, validation_fraction and "
            "n_iter_no_change, or use warm_start=False to fit again."
        )
    check_warm_start(fitted.network_.config, config, len(fitted.network_.layers))
