"""Scikit-learn estimator of the family, with the interface of :class:`rescnet.ResCNetClassifier`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..base.errors import ConfigError
from ..data.file_inputs import read_like
from ..estimator.image_classifier import ImageClassifier, check_pixels, draw_seed
from ..model import describe_images
from ..network.device import choose_device
from ..network.inputs import as_images
from ..network.layouts import ChannelRule
from ..network.memory import memory_budget
from .config import FamilyConfig, make_member
from .fitting import fit_member
from .network import FamilyNetwork

IMAGES_AT_A_TIME = 4096  # images converted at once for prediction


class FamilyClassifier(ImageClassifier):
    """PCANet or one of its relatives: filters learned without back-propagation, then a linear classifier.

    ``X`` may be (n, height, width), (n, height, width, channels), (n, channels, height, width) or flat rows, as for
    :class:`rescnet.ResCNetClassifier`.

    ``decision_function`` returns distances for an SVM, log-odds for an LDA, and added posteriors if all stages are
    classified.

    Parameters
    ----------
    member : str, default="pcanet"
        Name of the member, see :func:`rescnet.family.member_names`. Its preset has sizes for each kind of image.
    options : dict, default=None
        Options of :class:`rescnet.family.FamilyConfig` that replace the preset's, e.g.
        ``{"filters": (8, 6), "bank": "dct; pca"}``.
    image_shape : sequence of int, default=None
        Shape of one image, (height, width) or with channels. Flat rows need it unless they are square grey images.
    channels : {"auto", "first", "last"}, default="auto"
        Position of the channel axis in an image with three axes.
    device : str, default="auto"
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``; ``"auto"`` uses a GPU if there is one.
    max_memory : str or int, default="auto"
        Memory for training, e.g. ``"2GB"``; ``"auto"`` is 80 % of a GPU's memory, or 60 % of the host's.
    random_state : int, RandomState or None, default=None
        Seed of all random draws; an int makes fits repeatable.

    Attributes
    ----------
    classes_ : array, shape (C,)
        Sorted labels.
    network_ : FamilyNetwork
    config_ : FamilyConfig
    image_shape_ : tuple of int
        Shape of one image, as given or guessed.
    n_features_in_ : int
        Numbers in one image.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from rescnet.family import FamilyClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = FamilyClassifier("pcanet", options={"filters": (4, 4)}, random_state=0).fit(X[:300], y[:300])
    >>> classifier.predict(X[300:]).shape
    (1497,)
    """

    network_: FamilyNetwork
    config_: FamilyConfig

    def __init__(
        self,
        member: str = "pcanet",
        *,
        options: dict[str, Any] | None = None,
        image_shape: Sequence[int] | None = None,
        channels: ChannelRule = "auto",
        device: str = "auto",
        max_memory: str | int = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.member = member
        self.options = options
        self.image_shape = image_shape
        self.channels = channels
        self.device = device
        self.max_memory = max_memory
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn the filters and the classifier; ``y``, shape (n,), are labels of any type that can be sorted."""
        array, layout, classes, labels, _ = self._training_images(X, y)
        if self.options is not None and not isinstance(self.options, Mapping):
            raise ConfigError(f"options must be a dict, e.g. {{'svm_cost': 0.5}}, or None, got {self.options!r}.")
        options = dict(self.options or {}) | {"seed": draw_seed(self.random_state)}
        config = make_member(str(self.member), layout.image_shape, options)
        device = choose_device(self.device)
        check_pixels(array)
        images = as_images(layout.to_images(array))
        budget = memory_budget(str(self.max_memory), device)
        self.network_ = fit_member(images, torch.from_numpy(labels), len(classes), config, device, budget)
        self._images_seen(layout, classes, describe_images(images))
        self.config_ = config
        return self

    def _outputs(self, X: Any) -> Tensor:
        images, layout = self._new_images(X), self._layout
        found = []
        for start in range(0, len(images), IMAGES_AT_A_TIME):
            part = images[start : start + IMAGES_AT_A_TIME]
            if isinstance(part, list):
                pixels = layout.enlarged(read_like(part, layout.channels_first, self._preprocessing or {}))
            else:
                pixels = layout.to_images(part)
            found.append(self.network_.outputs(as_images(pixels, self.network_.image_shape)))
        return torch.cat(found)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on tables of few columns, which have almost no patches
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, with tensors on the CPU, so that a machine without a GPU can load it."""
        state: dict[str, Any] = super().__getstate__()
        return state | {"network_": state["network_"].to(torch.device("cpu"))} if "network_" in state else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled state; tensors move to ``device``, or stay on the CPU if it is not available."""
        super().__setstate__(state)
        if hasattr(self, "network_"):
            try:
                self.network_ = self.network_.to(choose_device(self.device))
            except ValueError:
                return
