"""Base class of the estimators: checked input of images and labels, and prediction of labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from ..base.errors import DataError
from ..data.file_inputs import is_path, listed_files, read_to_train
from ..data.loading import load_to_train
from ..network.inputs import how_to_fit, plain_values
from ..network.layouts import ChannelRule, ImageLayout, find_layout
from .sources import is_torch_data, named_labels, read_test_images, read_torch_data
from .weights import image_weights

CHUNK = 2**22  # numbers that are checked together
NewImages: TypeAlias = "NDArray[Any] | list[Path]"  # files are read chunk by chunk


class TrainingImages(NamedTuple):
    """Images to train on, without those of weight 0."""

    array: NDArray[Any]
    layout: ImageLayout  # of the array
    classes: NDArray[Any]  # sorted labels
    labels: NDArray[Any]  # index of each image's class
    weights: NDArray[np.float64] | None


class ImageClassifier(ABC, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of images (n, height, width), (n, height, width, channels), (n, channels, height, width) or rows."""

    classes_: NDArray[Any]
    image_shape_: tuple[int, ...]
    n_features_in_: int
    image_shape: Sequence[int] | None
    channels: ChannelRule
    _layout: ImageLayout
    _preprocessing: dict[str, Any] | None = None  # properties of the training images

    @abstractmethod
    def _outputs(self, X: Any) -> Tensor:
        """Return a score for each class, on the CPU, shape (n, C)."""

    def _training_images(self, X: Any, y: Any, class_weight: Any = None, sample_weight: Any = None) -> TrainingImages:
        """Return checked images, labels and weights.

        Pixels are checked later: cheap checks come first, those of all options included.
        """
        files = None if is_path(X) else listed_files(X, "X")
        channels: ChannelRule = "first" if is_path(X) or files else self.channels
        X, y = _labelled(read_to_train(files) if files else X, y, ordered=sample_weight is not None)
        X, y = plain_values(X, "X"), plain_values(y, "y")
        array, targets = validate_data(self, X, y, ensure_2d=False, allow_nd=True, ensure_all_finite=False)
        layout = find_layout(array.shape, self.image_shape, channels)
        check_classification_targets(targets)
        weights = image_weights(targets, class_weight, sample_weight)
        if weights is not None and not weights.all():
            kept = weights > 0
            array, targets, weights = array[kept], targets[kept], weights[kept]
        classes, labels = np.unique(targets, return_inverse=True)
        if len(classes) < 2:
            raise DataError(f"y must have at least two classes, got one class, {classes.tolist()[0]!r}.")
        return TrainingImages(array, layout, classes, labels, weights)

    def _images_seen(self, layout: ImageLayout, classes: NDArray[Any], preprocessing: dict[str, Any] | None) -> None:
        """Store the classes, the layout and the properties of the training images."""
        self.classes_, self._layout, self._preprocessing = classes, layout, preprocessing
        self.image_shape_, self.n_features_in_ = layout.shape, layout.numbers

    def _new_images(self, X: Any) -> NewImages:
        """Return images to predict as a checked array, or as files that are read chunk by chunk."""
        check_is_fitted(self)
        if is_torch_data(X):
            X, _ = read_torch_data(X, ordered=True)
        elif files := listed_files(X, "X"):
            return files
        array: NDArray[Any] = validate_data(
            self, plain_values(X, "X"), reset=False, ensure_2d=False, allow_nd=True, ensure_all_finite=False
        )
        check_same_images(array, self._layout, type(self).__name__)
        check_pixels(array)
        return array

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each image, shape (n,). Memory does not grow with the number of images."""
        best = self._outputs(X).argmax(1).numpy()
        return np.take(self.classes_, best)

    def score(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy; ``y`` is None if ``X`` is a folder, a name, or a torch ``Dataset`` or ``DataLoader``.

        Of a folder or name, the test images are measured, or all images if it has no test set.
        """
        if is_path(X) and y is None:
            check_is_fitted(self)
            X, y = read_test_images(X, self._layout, self._preprocessing or {})
        X, y = _labelled(X, y, ordered=sample_weight is not None)
        return float(super().score(X, y, sample_weight))

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the outputs Ỹ, shape (n, C); with two classes Ỹ₁ - Ỹ₀, shape (n,), positive for the second class."""
        return self._scores(self._outputs(X))

    def _scores(self, outputs: Tensor) -> NDArray[Any]:
        """Return outputs (n, C) as scikit-learn wants them: of two classes the difference."""
        return outputs.numpy() if len(self.classes_) > 2 else (outputs[:, 1] - outputs[:, 0]).numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _labelled(X: Any, y: Any, ordered: bool) -> tuple[Any, Any]:
    """Return images and labels, those of a source (folder or name), torch ``Dataset`` or ``DataLoader`` included."""
    if not (is_path(X) or is_torch_data(X)):
        return X, y
    if y is not None:
        raise DataError(f"y must be None, since the {'source' if is_path(X) else type(X).__name__} holds the labels.")
    if is_path(X):
        return named_labels(load_to_train(X).train)
    images, labels = read_torch_data(X, ordered)
    if labels is None:
        raise DataError(f"X must yield (image, label), got a {type(X).__name__} of images without labels.")
    return images, labels


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
            raise DataError(
                f"X must have finite pixels, got NaN or infinity, first in image {start + int(bad.argmax())}."
            )


def check_same_images(X: NDArray[Any], layout: ImageLayout, name: str) -> None:
    """Raise ValueError unless an array holds images of the fitted layout, or flat rows of them.

    ``name`` is the estimator's: scikit-learn prescribes the message about a wrong number of columns.
    """
    if X.ndim < 2:
        raise DataError(f"X must be a batch of images, got shape {X.shape}. Reshape your data.")
    if layout.matches(X.shape[1:]):
        return
    if X.shape == layout.shape:
        raise DataError(f"X must be a batch, got a single image of shape {X.shape}. Use X[None].")
    if X.ndim == 2:
        raise DataError(
            f"X has {X.shape[1]} features, but {name} is expecting {layout.numbers} features as input, images of "
            f"{layout.shape}."
        )
    remedy = how_to_fit(X.shape[1:], layout.shape)
    raise DataError(
        f"X must hold images of shape {layout.shape}, as {name} was fitted on, got {X.shape[1:]}. {remedy}."
    )
