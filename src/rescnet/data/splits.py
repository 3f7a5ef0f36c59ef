"""Hold training images out: choices are made on them, never on the test set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def hold_out(labels: NDArray[Any], fraction: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split images in two, each class in proportion; a class keeps at least one image for training.

    Parameters
    ----------
    labels : array, shape (n,)
    fraction : float
        Share held out, above 0 and below 1.
    seed : int

    Returns
    -------
    kept, held : arrays of int
        Indices of images, ascending.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"validation_fraction is {fraction:g}: choose a share between 0 and 1, as 0.2.")
    generator = np.random.default_rng(seed)
    held = []
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        held.append(members[: min(round(fraction * len(members)), len(members) - 1)])
    chosen = np.sort(np.concatenate(held))
    if not len(chosen):
        raise ValueError(
            f"a validation fraction of {fraction:g} of {len(labels)} images holds none out: choose a greater share, or "
            f"more images."
        )
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen
