"""Methods of a fitted classifier: probabilities, stages, features for other estimators, a model, and pickling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ..explain.explain import explain
from ..explain.explanation import Explanation
from ..model import Model, describe_run
from ..network.device import choose_device
from ..network.history import History
from ..network.network import Network, refuse_infinite
from ..network.probabilities import network_probabilities, probabilities
from ..numerics.sketch import sketch
from .image_classifier import CHUNK, ImageClassifier

FEATURES = 1024  # numbers per image that transform returns, at most


class FittedNetwork(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ImageClassifier):  # type: ignore[misc]
    """A classifier whose ``network_`` is a :class:`rescnet.Network`."""

    network_: Network
    history_: History
    n_layers_: int
    device: str
    test_views: str | None

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return a probability for each class, shape (n, C): a softmax of the outputs, which ranks classes like them.

        With a kernel readout they are calibrated on leave-one-out outputs of the training images.
        """
        outputs = self._outputs(X)  # first: it raises NotFittedError
        return network_probabilities(self.network_, outputs).numpy()

    def explain(self, X: Any) -> Explanation:
        """Explain the prediction of one image, given alone, as a batch of one, or as the path of a file.

        Training images are counted in the order of ``fit``, without those of the validation set or of weight 0.
        """
        check_is_fitted(self)
        single = isinstance(X, str | Path) or np.shape(X) in (self._layout.shape, (self._layout.numbers,))
        images = self._new_images([X] if single else X)
        if len(images) != 1:
            raise ValueError(f"X must be one image, got {len(images)}.")
        ((_, image),) = self._chunks(images, 1)
        return explain(self.network_.averaged_over(self.test_views), image, tuple(map(str, self.classes_)))

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield the labels after 1, 2, … layers, each of shape (n,); without the readout."""
        for stage in self._stages(X, lambda outputs: outputs.argmax(1)):
            yield self.classes_[stage.numpy()]

    def staged_predict_proba(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield the probabilities after 1, 2, … layers, each of shape (n, C); all n·C·layers numbers are held."""
        for stage in self._stages(X, lambda outputs: probabilities(outputs, self.network_.config.ceiling)):
            yield stage.numpy()

    @torch.inference_mode()
    def transform(self, X: Any) -> NDArray[Any]:
        """Return features of all layers for other estimators, shape (n, m), where m is at most 1,024.

        They are a sketch: each feature of a layer has a random sign and is added to one of ``1024 // n_layers_`` sums,
        so that distances between images are kept on average. Standardise them, e.g. with ``StandardScaler``.
        """
        images = self._new_images(X)
        stack, size = self.network_.first_layers(self.n_layers_).stack, self._sketch_size
        first = stack.layers[0].weights
        signs = self._signs().to(first)
        found = torch.empty(len(images), self._n_features_out, dtype=first.dtype)
        for start, part in self._chunks(images, stack.chunk):
            self.network_.warn_of_other_units(part)
            steps = zip(signs, stack.steps(part.to(first.device)), strict=True)
            found[start : start + len(part)] = torch.cat([sketch(step.features, w, size) for w, step in steps], dim=1)
        return found.numpy()

    @property
    def _n_features_out(self) -> int:
        """Numbers per image that ``transform`` returns; scikit-learn names them."""
        return self.n_layers_ * self._sketch_size

    @property
    def _sketch_size(self) -> int:
        """Sums per layer that ``transform`` returns."""
        features = self.network_.config.features(self.network_.image_shape[1:])
        return min(features, max(1, FEATURES // self.n_layers_))

    def _signs(self) -> Tensor:
        """Return the weights of the sketches, random signs of a common size, shape (layers, D)."""
        features = self.network_.config.features(self.network_.image_shape[1:])
        generator = torch.Generator().manual_seed(self.network_.config.seed)
        signs = 2.0 * torch.randint(2, (self.n_layers_, features), generator=generator) - 1
        return signs.mul_((self._sketch_size / features) ** 0.5)

    def to_model(self) -> Model:
        """Return the fitted network as a :class:`rescnet.Model`, which ``rescnet.save`` writes to a folder.

        The model takes images (n, channels, height, width). It has the layers used for prediction.
        """
        check_is_fitted(self)
        network = self.network_.averaged_over(self.test_views).first_layers(self.n_layers_)
        history = History(self.history_.records[: self.n_layers_], self.history_.stopped, self.history_.readout)
        about = describe_run(network.layers[0].weights.device)
        if self._preprocessing is not None:
            about["preprocessing"] = self._preprocessing
        return Model(network, history, tuple(map(str, self.classes_)), about)

    @torch.inference_mode()
    def _outputs(self, X: Any) -> Tensor:
        array = self._new_images(X)
        network = self.network_.averaged_over(self.test_views)
        outputs = torch.empty(len(array), network.classes, dtype=network.layers[0].weights.dtype)
        chunks = max(1, CHUNK // (network.batch * self._layout.numbers))  # together: one warning about their units
        for start, part in self._chunks(array, chunks * network.batch):
            outputs[start : start + len(part)] = network.outputs(part, self.n_layers_)
        return outputs

    @torch.inference_mode()
    def _stages(self, X: Any, keep: Callable[[Tensor], Tensor]) -> Tensor:
        """Return ``keep`` of Ỹ⁽¹⁾, Ỹ⁽²⁾, …, each (chunk, C), on the CPU, shape (layers, n, …); only this is held."""
        array = self._new_images(X)
        network = self.network_.averaged_over(self.test_views)
        device, stages = network.layers[0].weights.device, torch.empty(0)
        for start, part in self._chunks(array, network.stack.chunk):
            network.warn_of_other_units(part)
            for layer, output in enumerate(islice(network.stack.staged_outputs(part.to(device)), self.n_layers_)):
                kept = keep(refuse_infinite(output))
                if not len(stages):
                    stages = torch.empty(self.n_layers_, len(array), *kept.shape[1:], dtype=kept.dtype)
                stages[layer, start : start + len(part)] = kept
        return stages

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # features have the network's type
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: the layers on the CPU, so that a machine without a GPU can load them."""
        state: dict[str, Any] = super().__getstate__()
        if "network_" not in state:
            return state
        network = state["network_"]
        on_cpu = network.to("cpu")
        on_cpu.stack.half = network.half  # a GPU that unpickles it computes in half precision again
        return state | {"network_": on_cpu}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled state, with the layers on ``device`` if it is available, else on the CPU."""
        super().__setstate__(state)
        if hasattr(self, "network_"):
            try:
                device = choose_device(self.device)
            except ValueError:
                device = torch.device("cpu")
            self.network_ = self.network_.to(device)
