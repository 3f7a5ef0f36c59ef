"""What an estimator is given, checked before any work starts."""

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

NUMBERS_AT_A_TIME = 2**22


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes, sorted, shape (C,), and each label's place among them, shape (n,).

    Examples
    --------
    >>> encode_labels(np.array(["cat", "ant", "cat"]))
    (array(['ant', 'cat'], dtype='<U3'), array([1, 0, 1]))
    """
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y holds one class only ({classes.tolist()[0]!r}): give images of at least two classes.")
    return classes, labels


def draw_seed(random_state: Any) -> int:
    """Return an int itself, so that it means the same as ``seed`` elsewhere, and a number drawn from anything else."""
    source = check_random_state(random_state)
    return int(random_state) if isinstance(random_state, Integral) else int(source.randint(2**31 - 1))


def check_pixels(X: NDArray[Any]) -> None:
    """Refuse NaN and infinity, reading a few million numbers at a time."""
    if X.dtype.kind != "f":
        return
    step = max(1, NUMBERS_AT_A_TIME // X[0].size)
    for start in range(0, len(X), step):
        bad = ~np.isfinite(X[start : start + step]).reshape(-1, X[0].size).all(1)
        if bad.any():
            raise ValueError(
                f"X holds NaN or infinite pixels, first in image {start + int(bad.argmax())}: remove or repair them."
            )


def check_same_images(X: NDArray[Any], layout: ImageLayout, name: str) -> None:
    """Refuse an array that holds neither images of the layout an estimator was fitted on nor flat rows of them.

    Parameters
    ----------
    X : array
    layout : ImageLayout
    name : str
        Of the estimator; a wrong number of columns is told in scikit-learn's words.
    """
    if X.ndim < 2:
        raise ValueError(f"X has shape {X.shape}: Reshape your data, a single image into a batch of one.")
    if X.shape[1:] in (layout.shape, (layout.numbers,)):
        return
    if X.shape == layout.shape:
        raise ValueError(f"X is a single image, of shape {X.shape}: give a batch of one, as X[None].")
    if X.ndim == 2:
        raise ValueError(
            f"X has {X.shape[1]} features, but {name} is expecting {layout.numbers} features as input: "
            f"give images of {layout.shape}."
        )
    remedy = how_to_fit(X.shape[1:], layout.shape)
    raise ValueError(f"X holds images of shape {X.shape[1:]} but {name} was fitted on {layout.shape}: {remedy}.")


def warn_if_none_was_added(before: int, after: int, wanted: int, stopped: StopReason | None) -> None:
    """Warn where more layers were wanted of a network that has stopped by its own rules."""
    if before == after < wanted:
        warnings.warn(
            f"no layer was added to the {before} of {wanted} because {stopped}. Use a greater n_iter_no_change, or "
            "options={'stop_at_zero_error': False}.",
            InputWarning,
            stacklevel=3,
        )


def check_grows(fitted: Any, layout: ImageLayout, classes: NDArray[Any], config: NetworkConfig, held: Any) -> None:
    """Refuse, in one sentence, to add layers to a fitted estimator's network with these images.

    Parameters
    ----------
    fitted : ResCNetClassifier
    layout, classes, config
        Of the new fit.
    held : array of int, or None
        Images the new fit would hold out.
    """
    if layout != fitted._layout:
        raise ValueError(
            f"X holds images of shape {layout.shape} but the fitted network takes {fitted.image_shape_}: give images "
            f"of that shape, or fit anew with warm_start=False."
        )
    if not np.array_equal(classes, fitted.classes_):
        raise ValueError(
            f"y holds the classes {classes.tolist()} but the fitted network knows {fitted.classes_.tolist()}: give "
            f"the same, or fit anew with warm_start=False."
        )
    if (held is None) != (fitted._held is None) or not np.array_equal(held, fitted._held):
        raise ValueError(
            "other images would be held out than in the fit before, some of them already learnt from: keep X, y, "
            "validation_fraction and whether n_iter_no_change is set, or fit anew with warm_start=False."
        )
    check_warm_start(fitted.network_.config, config, len(fitted.network_.layers))
