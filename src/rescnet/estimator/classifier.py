"""ResCNet as a scikit-learn classifier; :class:`~rescnet.NetworkConfig` checks the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..config.compute import ComputeOptions
from ..config.defaults import quality_beside
from ..config.network import NetworkConfig
from ..data.splits import stratified_split
from ..network.device import choose_device
from ..network.history import History
from ..network.inputs import as_images
from ..network.network import Network
from ..text import parse_seconds
from ..training.choice import choose_network
from ..training.train import train
from .configuration import automatic_dtype, check_grows, configure, warn_if_none_was_added
from .image_classifier import check_pixels, draw_seed
from .layouts import ChannelRule
from .prediction import FittedNetwork


class ResCNetClassifier(FittedNetwork):
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

    The network follows from the images, their number and the ``quality``. A parameter that is not None changes it.

    Parameters
    ----------
    n_layers : int, default=None
        Largest number of layers.
    quality : {"fast", "balanced", "best"}, default="balanced"
        How much work to do for accuracy. Ignored with a ``preset``.
    time_limit : float or str, default=None
        Seconds for ``fit``, or e.g. ``"10m"``. It is kept by fewer layers or filters; so the network depends on the
        machine. With a ``preset`` it limits the layers only.
    preset : str, default=None
        Settings to start from instead: ``"paper"`` is the paper's network sized to the images, ``"cifar10"`` the
        paper's own; see :func:`rescnet.preset_names`.
    n_filters : int, default=None
        Filters per layer.
    filter_size, first_filter_size : int, default=None
        Side of the filters, and of the first layer's filters unless 0. A grey image needs larger filters first: its
        k×k patches have at most k² principal components.
    bank : str, default=None
        Filter bank, e.g. ``"pca"``, ``"stacked-lda"`` or ``"dct"``, or a mixture, e.g. ``"3 pca + 1 stacked-lda"``.
        ``"dct; pca"`` uses dct in the first layer only.
    block_sizes : sequence of int, default=None
        Sides of the second-order pooling blocks in pixels, e.g. ``(12, 20)``.
    block_stride : int, default=None
        Pixels between neighbouring blocks.
    pyramid : sequence of int, default=None
        Cells per side of each pyramid level, e.g. ``(4, 2, 1)``.
    head : {"lda", "multiclass-lda", "ridge"}, default=None
        Classifier of a layer.
    ridge : float, default=None
        Regularisation γ of the heads, in units of a feature's variance.
    learning_rate : float, default=None
        Learning rate α of the first layer.
    ceiling : float, default=None
        Target output λ of the correct class.
    test_views : str, default=None
        Views that a prediction is averaged over, e.g. ``"flip"`` or ``"flip + shift 1"``; ``""`` is the image alone. It
        is also read when predicting: ``set_params(test_views="flip")`` changes a fitted estimator.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class's images, which multiplies ``sample_weight``. ``"balanced"`` gives all classes the same
        total weight.
    options : dict, default=None
        Any option of :class:`rescnet.NetworkConfig`, e.g. ``{"posterior": "softmax", "stop_at_zero_error": False}``.
    image_shape : sequence of int, default=None
        Shape of one image: (height, width), or with channels. Needed for flat rows that are no square grey images.
    channels : {"auto", "first", "last"}, default="auto"
        Axis of the channels, if any. ``"auto"`` is the last axis, else the first, whichever has 1, 3 or 4 entries.
    validation_fraction : float, default=0.1
        Fraction of each class's images used as validation set, if ``n_iter_no_change`` is set.
    n_iter_no_change : int, default=None
        Early stopping: stop after n layers without a better validation accuracy, and use the best depth for prediction
        and the readout. None disables it.
    refit : bool, default=False
        With ``n_iter_no_change``: train again on all images, with the best validation depth.
    warm_start : bool, default=False
        Add layers to the fitted network in a second ``fit`` with a greater ``n_layers``. On the same data the result
        equals that of one long run.
    device : str, default="auto"
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``; ``"auto"`` uses a GPU if there is one.
    memory : str or int, default="auto"
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
    classes_ : array, shape (C,)
        Sorted labels.
    network_ : Network
        All trained layers. It takes (n, channels, height, width), enlarged if a side is under 8 pixels.
    history_ : History
        One record per layer: accuracies, seconds by stage, memory; and the reason why training stopped.
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

    _held: NDArray[np.intp] | None  # indices of the validation images: a warm start needs the same

    def __init__(
        self,
        n_layers: int | None = None,
        *,
        quality: str = "balanced",
        time_limit: float | str | None = None,
        preset: str | None = None,
        n_filters: int | None = None,
        filter_size: int | None = None,
        first_filter_size: int | None = None,
        bank: str | None = None,
        block_sizes: Sequence[int] | int | None = None,
        block_stride: int | None = None,
        pyramid: Sequence[int] | None = None,
        head: str | None = None,
        ridge: float | None = None,
        learning_rate: float | None = None,
        ceiling: float | None = None,
        test_views: str | None = None,
        class_weight: dict[Any, float] | str | None = None,
        options: dict[str, Any] | None = None,
        image_shape: Sequence[int] | None = None,
        channels: ChannelRule = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = None,
        refit: bool = False,
        warm_start: bool = False,
        device: str = "auto",
        memory: str | int = "auto",
        dtype: str = "auto",
        precision: str = "auto",
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_layers = n_layers
        self.quality = quality
        self.time_limit = time_limit
        self.preset = preset
        self.n_filters = n_filters
        self.filter_size = filter_size
        self.first_filter_size = first_filter_size
        self.bank = bank
        self.block_sizes = block_sizes
        self.block_stride = block_stride
        self.pyramid = pyramid
        self.head = head
        self.ridge = ridge
        self.learning_rate = learning_rate
        self.ceiling = ceiling
        self.test_views = test_views
        self.class_weight = class_weight
        self.options = options
        self.image_shape = image_shape
        self.channels = channels
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.refit = refit
        self.warm_start = warm_start
        self.device = device
        self.memory = memory
        self.dtype = dtype
        self.precision = precision
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train a network, or with ``warm_start`` add layers to the fitted one.

        ``y``, shape (n,), are labels of any type that can be sorted; None if ``X`` is a folder, a name, or a torch
        ``Dataset`` or ``DataLoader``. An image with ``sample_weight`` 2 counts like two equal images; 0 leaves it out.
        """
        if self.refit and (self.warm_start or self.time_limit is not None):
            raise ValueError("refit must not be used with warm_start or a time_limit. Leave one out.")
        continues = bool(self.warm_start) and hasattr(self, "network_")
        array, layout, classes, labels, weights = self._training_images(X, y, self.class_weight, sample_weight)
        seed = self.network_.config.seed if continues else draw_seed(self.random_state)
        dtype: Any = automatic_dtype(layout) if self.dtype == "auto" else self.dtype
        precision: Any = self.precision
        compute = ComputeOptions(device=self.device, memory=str(self.memory), dtype=dtype, precision=precision)
        check_pixels(array)
        quality = quality_beside(self.preset, None if self.quality == "balanced" else self.quality)
        limit = None if self.time_limit is None else parse_seconds(str(self.time_limit))

        used: list[float] = []  # seconds

        def choose(asked: dict[str, Any]) -> NetworkConfig:
            if continues:
                return replace(self.network_.config, **asked)
            images = as_images(layout.to_images(array))
            choice = choose_network(images, torch.as_tensor(labels), compute, quality, limit, asked)
            used.append(choice.seconds)
            return choice.config

        config = configure(self.get_params(deep=False), self.options, layout, len(classes), seed, choose)
        kept: Any = slice(None)
        held: NDArray[np.intp] | None = None
        if config.patience:
            kept, held = stratified_split(labels, self.validation_fraction, config.seed)
        elif self.refit:
            raise ValueError("refit must be used with n_iter_no_change. Without it, all images train already.")
        if continues:
            check_grows(self, layout, classes, config, held)
        images = layout.to_images(array)
        validation = None if held is None else (images[held], labels[held])
        start = (self.network_, self.history_) if continues else None
        network, history = self._train(
            images[kept],
            labels[kept],
            config,
            validation=validation,
            weights=None if weights is None else weights[kept],
            compute=compute,
            start=start,
            time_limit=None if limit is None else max(1.0, limit - sum(used)),
        )
        if self.refit and held is not None:
            whole = replace(config, layers=network.used_layers, patience=0)
            network, history = self._train(images, labels, whole, weights=weights, compute=compute)
        if continues:
            warn_if_none_was_added(len(self.network_.layers), len(network.layers), config.layers, history.stopped)
        self._images_seen(layout, classes, images)
        self.network_, self.history_, self._held = network, history, held
        self.n_layers_ = network.used_layers
        return self

    def _train(self, *data: Any, **how: Any) -> tuple[Network, History]:
        """Call :func:`train`, with a table if ``verbose``."""
        if not self.verbose:
            return train(*data, **how)
        from rich.console import Console

        from ..training.listeners import TrainingTable

        with TrainingTable(Console(), type(self).__name__, str(choose_device(self.device))) as table:
            network, history = train(*data, **how, listener=table)
            table.finished(history)
        return network, history
