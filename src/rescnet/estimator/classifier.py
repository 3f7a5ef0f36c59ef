"""ResCNet as a scikit-learn classifier: its contract around a :class:`rescnet.Model`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ..base.errors import ConfigError
from ..base.text import parse_seconds
from ..config.choices import Config, refuses_unknown
from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..config.option import OptionError
from ..explain.explanation import Explanation
from ..model import Model, as_model, describe_images, describe_run
from ..network.device import choose_device
from ..network.layouts import ChannelRule, ImageLayout
from ..network.network import Network
from ..network.probabilities import probabilities
from ..numerics.sketch import sketch
from ..training.choice import Choice
from ..training.data import TrainingData
from ..training.fitting import RunInterrupted, Wishes, fit
from ..training.listener import Listener, Listeners
from ..training.table import TrainingTable
from .configuration import (
    PARAMETERS,
    asked_config,
    automatic_dtype,
    check_grows,
    under_parameter,
    warn_if_none_was_added,
)
from .image_classifier import ImageClassifier, check_pixels, draw_seed

FEATURES = 1024  # numbers per image that transform returns, at most


class ResCNetClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ImageClassifier):  # type: ignore[misc]
    """Deep image classifier trained without back-propagation, layer by layer on the residual of the layers before.

    ``X`` may be (n, height, width), (n, height, width, channels), (n, channels, height, width) or flat rows, of any
    real number type and range. Rows without an ``image_shape`` are square grey images if their number of columns is a
    square, and images of one line if it is another number up to 64. Images with a side under 8 pixels are enlarged by
    repeating pixels. Tables of measurements can be fitted, but have no neighbouring pixels to learn from: use another
    classifier for them.

    ``X`` may also be an image folder, a ``.npz`` file or the name of a public data set (:func:`rescnet.data.load`),
    whose training images are used, or a torch ``Dataset`` or ``DataLoader`` of (image, label); all without ``y``.
    With ``y`` it may be a list of image files. Methods of a fitted classifier take the path of an image file or of a
    folder, or a list of such files too, which are fitted to the size and colour of the training images.

    The network follows from the images, their number and the ``quality``. A parameter that is not None changes it, and
    ``config`` has all further options.

    Parameters
    ----------
    n_layers : int, default=None
        Largest number of layers.
    quality : {"fast", "balanced", "best"}, default="balanced"
        How much work to do for accuracy. A preset decides it itself.
    time_limit : float or str, default=None
        Seconds for ``fit``, or e.g. ``"10m"``. It is kept by fewer layers or filters; so the network depends on the
        machine. With a preset it limits the layers only.
    augment : str, default=None
        Changes of copies of the training images, e.g. ``"flip + shift 2"``; ``""`` is none. By default a trial on the
        images decides about mirror images.
    readout : {"kernel", "heads"}, default=None
        Answer after the last layer: a kernel regression on all layers, which the default network has, or their heads.
    config : Config or str, default=None
        All other options, e.g. ``rescnet.Config(ridge=0.5)``, or the name of a preset: ``"paper"`` is the paper's
        network sized to the images, ``"cifar10"`` the paper's own; see :func:`rescnet.preset_names`.
        ``{"config__ridge": [0.5, 2]}`` searches an option, if ``config`` is a ``Config``.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class's images, which multiplies ``sample_weight``. ``"balanced"`` gives all classes the same
        total weight.
    image_shape : sequence of int, default=None
        Shape of one image: (height, width), or with channels. Needed for flat rows that are no square grey images.
    channels : {"auto", "first", "last"}, default="auto"
        Axis of the channels, if any. ``"auto"`` is the last axis, else the first, whichever has 1, 3 or 4 entries.
    n_iter_no_change : int, default=None
        Early stopping: stop after n layers without a better validation accuracy, and use the best depth for prediction
        and the readout. None disables it.
    validation_fraction : float, default=None
        Fraction of each class's images used as validation set. None is a tenth with early stopping, else nothing.
    refit : bool, default=False
        With ``n_iter_no_change``: train again on all images, with the best validation depth.
    warm_start : bool, default=False
        Add layers to the fitted network in a second ``fit`` with a greater ``n_layers``. On the same data the result
        equals that of one long run.
    device : str, default="auto"
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``; ``"auto"`` uses a GPU if there is one.
    max_memory : str or int, default="auto"
        Memory for training, e.g. ``"2GB"``; ``"auto"`` is 80 % of a GPU's memory, or 60 % of the host's.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Floating type of the network and its outputs. ``"auto"`` is float64 if a side is under 16 pixels, else float32.
    precision : {"auto", "exact", "balanced", "fast"}, default="auto"
        ``"balanced"`` keeps maps and features in float16; ``"fast"`` also solves to three digits. ``"auto"`` is exact
        on a CPU or in float64, and balanced on a GPU.
    verbose : int, default=0
        1 prints the plan and one line per layer.
    random_state : int, RandomState or None, default=None
        Seed of the stacked-LDA draws and of the validation set; an int makes fits reproducible.

    Attributes
    ----------
    model_ : Model
        The trained network with its history; :func:`rescnet.save` writes it, also after Ctrl-C in ``fit``.
    classes_ : array, shape (C,)
        Sorted labels.
    n_layers_ : int
        Layers used for prediction: all, or the best validation depth with ``n_iter_no_change``.
    image_shape_ : tuple of int
        Shape of one image in ``X``.
    n_features_in_ : int
        Numbers per image.
    feature_names_in_ : array of str, shape (columns,)
        Column names, if ``X`` was a data frame.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from rescnet import ResCNetClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = ResCNetClassifier(n_layers=2, random_state=0).fit(X[:40], y[:40])
    >>> classifier.image_shape_, classifier.predict(X[200:230]).shape
    ((8, 8), (30,))
    """

    model_: Model
    n_layers_: int
    _held: NDArray[np.intp] | None = None  # indices of the validation images: a warm start needs the same

    @refuses_unknown
    def __init__(
        self,
        n_layers: int | None = None,
        *,
        quality: str = "balanced",
        time_limit: float | str | None = None,
        augment: str | None = None,
        readout: str | None = None,
        config: Config | NetworkConfig | str | None = None,
        class_weight: dict[Any, float] | str | None = None,
        image_shape: Sequence[int] | None = None,
        channels: ChannelRule = "auto",
        n_iter_no_change: int | None = None,
        validation_fraction: float | None = None,
        refit: bool = False,
        warm_start: bool = False,
        device: str = "auto",
        max_memory: str | int = "auto",
        dtype: str = "auto",
        precision: str = "auto",
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_layers = n_layers
        self.quality = quality
        self.time_limit = time_limit
        self.augment = augment
        self.readout = readout
        self.config = config
        self.class_weight = class_weight
        self.image_shape = image_shape
        self.channels = channels
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.warm_start = warm_start
        self.device = device
        self.max_memory = max_memory
        self.dtype = dtype
        self.precision = precision
        self.verbose = verbose
        self.random_state = random_state

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """Return the fitted classifier of a model, e.g. a loaded one; fitted again, it trains the same network."""
        model = as_model(model)
        options, layout = vars(model.network.config).copy(), model.layout
        own: dict[str, Any] = {name: options.pop(option) for option, name in PARAMETERS.items()}
        own["n_iter_no_change"] = own["n_iter_no_change"] or None
        dtype = str(model.network.layers[0].weights.dtype).removeprefix("torch.")
        channels: Any = "auto" if layout.channels == "none" else layout.channels
        settings: dict[str, Any] = {"image_shape": layout.shape, "channels": channels, "dtype": dtype}
        classifier = cls(**own, config=Config(**options), **settings)
        classifier._keep(model, layout)
        return classifier

    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train a network, or with ``warm_start`` add layers to the fitted one.

        ``y``, shape (n,), are labels of any type that can be sorted; None if ``X`` is a folder, a name, or a torch
        ``Dataset`` or ``DataLoader``. An image with ``sample_weight`` 2 counts like two equal images; 0 leaves it out.

        At Ctrl-C the finished layers are kept in ``model_``.
        """
        began = monotonic()
        before = self.model_ if self.warm_start and hasattr(self, "model_") else None
        array, layout, classes, labels, weights = self._training_images(X, y, self.class_weight, sample_weight)
        seed = draw_seed(self.random_state) if before is None else before.network.config.seed
        dtype: Any = automatic_dtype(layout) if self.dtype == "auto" else self.dtype
        quality: Any = self.quality
        precision: Any = self.precision
        compute = ComputeOptions(device=self.device, max_memory=str(self.max_memory), dtype=dtype, precision=precision)
        wishes = Wishes(
            config=asked_config(self.get_params(deep=False), layout, seed),
            quality=quality,
            time_limit=None if self.time_limit is None else parse_seconds(str(self.time_limit)),
            began=began,
            validation_fraction=self.validation_fraction,
            refit=self.refit,
        )
        check_pixels(array)
        if before is not None:
            check_grows(self, layout, classes, wishes.config)
        images = layout.to_images(array)
        device = choose_device(self.device)
        held_out = _HeldOut(self._held, continues=before is not None)
        about = describe_run(device) | {"preprocessing": describe_images(images, layout)}

        with TrainingTable(Console(quiet=not self.verbose), type(self).__name__, str(device)) as table:
            try:
                network, history = fit(
                    TrainingData.of(images, labels, weights=weights),
                    wishes,
                    compute=compute,
                    listener=Listeners(held_out, table if self.verbose else None),
                    start=None if before is None else (before.network, before.history),
                )
            except OptionError as error:
                raise under_parameter(error) from None
            except RunInterrupted as stop:
                interrupted = stop.with_model(classes, about)
                self._keep(interrupted.model, layout, held_out.indices)
                raise interrupted from None
        if before is not None:
            wanted = network.config.layers
            warn_if_none_was_added(len(before.network.layers), len(network.layers), wanted, history.stopped)
        self._keep(Model(network, history, classes, about), layout, held_out.indices)
        return self

    def _keep(self, model: Model, layout: ImageLayout, held: NDArray[np.intp] | None = None) -> None:
        """Store a trained model, the layout of its images, and the indices of its validation images."""
        self.model_, self._held = model, held
        self.n_layers_ = model.network.used_layers
        self._images_seen(layout, model.labels, model.about.get("preprocessing"))

    @property
    def _network(self) -> Network:
        return self.model_.network

    def predict(self, X: Any, views: str | None = None) -> NDArray[Any]:
        """Return the label of each image, shape (n,). Memory does not grow with the number of images.

        ``views``, e.g. ``"flip + shift 1"``, are those that a prediction is averaged over; ``""`` is the image alone.
        """
        best = self._outputs(X, views).argmax(1).numpy()
        return np.take(self.classes_, best)

    def predict_proba(self, X: Any, views: str | None = None) -> NDArray[Any]:
        """Return a probability for each class, shape (n, C): a softmax of the outputs, which ranks classes like them.

        With a kernel readout they are calibrated on leave-one-out outputs of the training images.
        """
        return self._fitted.predict_proba(self._new_images(X), views=views)

    def decision_function(self, X: Any, views: str | None = None) -> NDArray[Any]:
        """Return the outputs Ỹ, shape (n, C); with two classes Ỹ₁ - Ỹ₀, shape (n,), positive for the second class."""
        return self._scores(self._outputs(X, views))

    def explain(self, X: Any) -> Explanation:
        """Explain the prediction of one image, given alone, as a batch of one, or as the path of a file.

        Training images are counted in the order of ``fit``, without those of the validation set or of weight 0.
        """
        return self._fitted.explain(X)

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield the labels after 1, 2, … layers, each of shape (n,); without the readout."""
        for stage in self._fitted.stages(self._new_images(X), lambda outputs: outputs.argmax(1)):
            yield self.classes_[stage.numpy()]

    def staged_predict_proba(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield the probabilities after 1, 2, … layers, each of shape (n, C); all n·C·layers numbers are held."""
        ceiling = self._fitted.network.config.ceiling
        for stage in self.model_.stages(self._new_images(X), lambda outputs: probabilities(outputs, ceiling)):
            yield stage.numpy()

    @torch.inference_mode()
    def transform(self, X: Any) -> NDArray[Any]:
        """Return features of all layers for other estimators, shape (n, m), where m is at most 1,024.

        They are a sketch: each feature of a layer has a random sign and is added to one of ``1024 // n_layers_`` sums,
        so that distances between images are kept on average. Standardise them, e.g. with ``StandardScaler``.
        """
        images = self._new_images(X)
        stack, size = self._network.first_layers(self.n_layers_).stack, self._sketch_size
        first = stack.layers[0].weights
        signs = self._signs().to(first)
        found = torch.empty(len(images), self._n_features_out, dtype=first.dtype)
        for start, part in self.model_.chunks(images, stack.chunk):
            self._network.warn_of_other_units(part)
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
        features = self._network.config.features(self._network.image_shape[1:])
        return min(features, max(1, FEATURES // self.n_layers_))

    def _signs(self) -> Tensor:
        """Return the weights of the sketches, random signs of a common size, shape (layers, D)."""
        features = self._network.config.features(self._network.image_shape[1:])
        generator = torch.Generator().manual_seed(self._network.config.seed)
        signs = 2.0 * torch.randint(2, (self.n_layers_, features), generator=generator) - 1
        return signs.mul_((self._sketch_size / features) ** 0.5)

    @property
    def _fitted(self) -> Model:
        """The model; raise NotFittedError without one."""
        check_is_fitted(self)
        return self.model_

    def _outputs(self, X: Any, views: str | None = None) -> Tensor:
        return torch.from_numpy(self._fitted.outputs(self._new_images(X), views=views))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # features have the network's type
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: the layers on the CPU, so that a machine without a GPU can load them."""
        state: dict[str, Any] = super().__getstate__()
        if "model_" not in state:
            return state
        model: Model = state["model_"]
        on_cpu = model.network.to("cpu")
        on_cpu.stack.half = model.network.half  # a GPU that unpickles it computes in half precision again
        return state | {"model_": replace(model, network=on_cpu)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled state, with the layers on ``device`` if it is available, else on the CPU."""
        super().__setstate__(state)
        if hasattr(self, "model_"):
            try:
                device = choose_device(self.device)
            except ValueError:
                device = torch.device("cpu")
            self.model_ = replace(self.model_, network=self.model_.network.to(device))


class _HeldOut(Listener):
    """Indices of the images that were held out; a warm start needs the same as before."""

    def __init__(self, before: NDArray[np.intp] | None, continues: bool) -> None:
        self._before, self._continues = before, continues
        self.indices: NDArray[np.intp] | None = None

    def chosen(self, choice: Choice) -> None:
        held = choice.held_out
        same = held is self._before if held is None or self._before is None else np.array_equal(held, self._before)
        if self._continues and not same:
            raise ConfigError(
                "validation images must stay the same with warm_start. Keep X, y, validation_fraction and "
                "n_iter_no_change, or use warm_start=False to fit again."
            )
        self.indices = held  # a refit has none: it trains on all images
