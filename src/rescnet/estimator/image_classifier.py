"""Base class of the estimators: input of images and labels, and prediction of labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from ..network.inputs import refuse_unequal_shapes
from .checks import check_pixels, check_same_images, encode_labels
from .layouts import ChannelRule, ImageLayout, find_layout


class ImageClassifier(ABC, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of images (n, height, width), (n, height, width, channels), (n, channels, height, width) or rows."""

    classes_: NDArray[Any]
    image_shape_: tuple[int, ...]
    n_features_in_: int
    image_shape: Sequence[int] | None
    channels: ChannelRule
    _layout: ImageLayout

    @abstractmethod
    def _outputs(self, X: ArrayLike) -> Tensor:
        """Return a score for each class, on the CPU, shape (n, C)."""

    def _training_images(
        self, X: ArrayLike, y: ArrayLike
    ) -> tuple[NDArray[Any], ImageLayout, NDArray[Any], NDArray[Any]]:
        """Return images as an array, its layout, the classes, and the index of each label's class.

        Pixels are checked later: cheap checks come first, those of all options included.
        """
        refuse_unequal_shapes(X, "X")
        array, targets = validate_data(self, X, y, ensure_2d=False, allow_nd=True, ensure_all_finite=False)
        layout = find_layout(array.shape, self.image_shape, self.channels)
        return array, layout, *encode_labels(targets)

    def _images_seen(self, layout: ImageLayout, classes: NDArray[Any]) -> None:
        """Store the classes and the layout of the training images."""
        self.classes_, self._layout = classes, layout
        self.image_shape_, self.n_features_in_ = layout.shape, layout.numbers

    def _new_images(self, X: ArrayLike) -> NDArray[Any]:
        """Return images to predict as a checked array."""
        check_is_fitted(self)
        refuse_unequal_shapes(X, "X")
        array: NDArray[Any] = validate_data(
            self, X, reset=False, ensure_2d=False, allow_nd=True, ensure_all_finite=False
        )
        check_same_images(array, self._layout, type(self).__name__)
        check_pixels(array)
        return array

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each image, shape (n,). Memory does not grow with the number of images."""
        best = self._outputs(X).argmax(1).numpy()
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def _decisions(self, X: ArrayLike) -> NDArray[Any]:
        """Return the outputs, shape (n, C); with two classes Ỹ₁ - Ỹ₀, shape (n,)."""
        outputs = self._outputs(X)
        return outputs.numpy() if len(self.classes_) > 2 else (outputs[:, 1] - outputs[:, 0]).numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
