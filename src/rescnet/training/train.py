"""Training from Python: images and labels in, a model out."""

from __future__ import annotations

from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from ..base.errors import ConfigError, DataError
from ..base.text import parse_seconds
from ..config.choices import Config, refuses_unknown
from ..config.compute import ComputeOptions
from ..config.defaults import Quality
from ..config.network import NetworkConfig
from ..data.loading import load_to_train
from ..model import HasModel, Model, as_model, describe_images, describe_run
from ..network.device import choose_device
from ..network.inputs import Array, as_images, plain_values
from ..saving import check_place
from .data import TrainingData, as_weights
from .fitting import RunInterrupted, Wishes, fit
from .listener import Listener, Listeners
from .saver import ModelSaver
from .table import TrainingTable
from .workers import Workers


@refuses_unknown
def train(
    images: Array | str | PathLike[str],
    labels: ArrayLike | None = None,
    config: Config | NetworkConfig | str | None = None,
    *,
    quality: Quality = "balanced",
    time_limit: float | str | None = None,
    validation: tuple[Array, ArrayLike] | None = None,
    validation_fraction: float | None = None,
    refit: bool = False,
    test: tuple[Array, ArrayLike] | None = None,
    weights: Array | None = None,
    start: Model | HasModel | None = None,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    verbose: int = 0,
    compute: ComputeOptions | None = None,
    listener: Listener | None = None,
    workers: Workers | None = None,
) -> Model:
    """Train a network, layer by layer.

    At Ctrl-C it raises :class:`rescnet.Interrupted`, whose ``model`` has the finished layers.

    Parameters
    ----------
    images : Tensor or array, shape (n, channels, height, width), or source
        uint8 or floating, in any range of values. Or all that :func:`rescnet.data.load` reads: an image folder, a
        ``.npz`` file, or a name, e.g. ``"cifar10:50"``, whose validation and test images are used too.
    labels : array, shape (n,)
        Labels of any type that can be sorted; None for a source.
    config : Config, NetworkConfig or str, optional
        What is not left to the images: options, a complete configuration, or the name of a preset.
    quality : {"fast", "balanced", "best"}, default "balanced"
        How much work to do for accuracy. A preset decides it itself.
    time_limit : float or str, optional
        Seconds, or e.g. ``"10m"``. It is kept by fewer layers or filters, so the network depends on the machine.
    validation : (images, labels), optional
        Validation set: its accuracy is recorded and decides early stopping (``Config(patience=5)``).
    validation_fraction : float, optional
        Fraction of each class's training images that become the validation set, if none is given. By default a tenth
        with early stopping, else none.
    refit : bool, default False
        With early stopping: train again on all images, with the best validation depth.
    test : (images, labels), optional
        Test set: its accuracy is recorded, and decides nothing.
    weights : Tensor or array, shape (n,), optional
        Weight of each training image in all sums: one of weight 2 counts like two equal images. 0 leaves it out.
    start : Model or fitted ResCNetClassifier, optional
        Model to continue from: the images pass through its layers, and new ones are added. It is not changed. On the
        same images and machine the result is that of an uninterrupted run.
    out : path, optional
        Folder where each layer is saved when it is finished; at any time it holds a usable model.
    overwrite : bool, default False
        Replace a model in ``out``; it stays until the new one is complete.
    verbose : int, default 0
        1 prints the plan, one line per layer with the time left, and a summary.
    compute : ComputeOptions, optional
        Device, precision and memory.
    listener : Listener, optional
        Object that is informed of the progress.
    workers : Workers, optional
        Processes that train together. Each is given all images, and takes its shard.
    """
    began, workers, compute = monotonic(), workers or Workers(), compute or ComputeOptions()
    wishes = Wishes(
        config=Config(config) if config is None or isinstance(config, str) else config,
        quality=quality,
        time_limit=None if time_limit is None else parse_seconds(str(time_limit)),
        began=began,
        validation_fraction=validation_fraction,
        refit=refit,
    )
    for split, pair in (("validation", validation), ("test", test)):
        if pair is not None and (not isinstance(pair, tuple | list) or len(pair) != 2):
            raise ConfigError(f"{split} must be a pair of images and labels, got {type(pair).__name__}.")
    if not isinstance(compute, ComputeOptions):
        kind = type(compute).__name__
        raise ConfigError(f"compute must be rescnet.ComputeOptions, got {kind}. Write ComputeOptions(device='cpu').")
    before = None if start is None else as_model(start)
    if out is not None:
        check_place(Path(out), overwrite)
    others: dict[str, Any] = {name: pair for name, pair in (("validation", validation), ("test", test)) if pair}
    name = "training"
    if isinstance(images, str | PathLike):
        if labels is not None:
            raise ConfigError("labels must be None, since the source holds them. Write train(source, config=...).")
        name = str(images)
        source = workers.first_alone(lambda: load_to_train(name))
        images, labels, order = source.train.images, _names(source.train), np.array(source.class_names)
        for split, part in (("validation", source.validation), ("test", source.test)):
            if split not in others and part is not None:
                others[split] = part.images, _names(part)
    elif labels is None:
        as_images(images)  # refuses a data set of PyTorch by its name
        raise DataError("labels must be given with arrays of images, got None.")
    else:
        order = _classes_of(labels, weights, images)
    order = order if before is None else before.labels
    others = {split: (pair[0], _numbers(pair[1], order, split)) for split, pair in others.items()}
    data = TrainingData.of(images, _numbers(labels, order, "", weights), weights=weights, **others)
    device = choose_device(compute.device) if workers.count == 1 else workers.device
    about = describe_run(device) | {"preprocessing": describe_images(data.images)}
    saver = ModelSaver(Path(out), order, about, overwrite) if out is not None and workers.is_rank0 else None
    shown = bool(verbose) and workers.is_rank0
    with saver or nullcontext(), TrainingTable(Console(quiet=not shown), name, str(device)) as table:
        try:
            network, history = fit(
                data,
                wishes,
                compute=compute,
                listener=Listeners(saver, table if shown else None, listener),
                workers=workers,
                start=None if before is None else (before.network, before.history),
            )
        except RunInterrupted as stop:
            raise stop.with_model(order[: stop.network.classes], about) from None
    return Model(network, history, order[: network.classes], about)


def _names(images: Any) -> NDArray[np.str_]:
    """Return the name of each image's class."""
    names: NDArray[np.str_] = np.array(images.class_names)[images.labels]
    return names


def _classes_of(labels: Any, weights: Any, images: Any) -> NDArray[Any]:
    """Return the sorted labels of the images that have a weight, shape (C,)."""
    values = np.asarray(plain_values(labels, "labels"))
    count = len(images) if hasattr(images, "__len__") else len(as_images(images))
    if values.shape != (count,):
        as_images(images)  # which may be what is wrong
        raise DataError(f"labels must have shape ({count},), one per image, got {values.shape}.")
    if values.dtype.kind == "f" and not np.all(np.isfinite(values) & (values == np.round(values))):
        raise DataError("labels must be whole numbers or names of classes, got fractions, infinity or NaN.")
    weighing = as_weights(weights, len(values))
    try:
        classes = np.unique(values if weighing is None else values[weighing.numpy() > 0])
    except TypeError:
        raise DataError("labels must be of one type that can be sorted, e.g. all text or all numbers.") from None
    if len(classes) == 1:
        raise DataError(f"labels must have at least two classes, got only {classes.tolist()[0]!r}.")
    return classes


def _numbers(labels: Any, classes: NDArray[Any], split: str, weights: Any = None) -> NDArray[np.int64]:
    """Return the place of each image's label among those of the classes (C,), shape (n,).

    An image of weight 0 may have any label.
    """
    name = f"{split} labels".strip()
    values, order = np.asarray(plain_values(labels, name)), np.argsort(classes)
    unknown = ~np.isin(values, classes)
    if weights is not None and np.shape(weights) == values.shape:
        unknown &= np.asarray(plain_values(weights)) > 0
    if unknown.any():
        wanted = "the training labels" if split else "those of the model to start from"
        raise DataError(f"{name} must be among {wanted}, got {values[unknown].tolist()[0]!r}.")
    places = np.searchsorted(classes, values, sorter=order).clip(max=len(classes) - 1)
    numbers: NDArray[np.int64] = order.astype(np.int64)[places]
    return numbers
