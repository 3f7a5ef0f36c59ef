"""The estimator's configuration: settings that follow from the images, its parameters, and rules of a warm start."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config.defaults import SMALL_SIDE
from ..config.network import NetworkConfig
from ..config.option import OptionError, check_unchanged, declared_types, options_of
from ..config.presets import PAPER, check_asked_options, check_names, load_preset, paper_settings
from ..network.history import StopReason
from ..network.inputs import InputWarning
from .layouts import ImageLayout

PARAMETERS: dict[str, str] = {
    name: entry.metadata["sklearn"] for name, entry in options_of(NetworkConfig).items() if entry.metadata["sklearn"]
}
"""The estimator's parameter of each option that has one."""
OPTION_OF = {parameter: name for name, parameter in PARAMETERS.items()}
FIT_AGAIN = "Use warm_start=False to fit again."


def options_for(layout: ImageLayout) -> dict[str, Any]:
    """Return options that images need whatever the network is.

    Enlarged images have few different patches, which are seldom separated without error: every draw is accepted there.
    They may be rows of a table, whose mirror images mean nothing.
    """
    return {} if layout.enlargement == (1, 1) else {"tolerance": 1.0, "augment": ""}


def automatic_dtype(layout: ImageLayout) -> str:
    """Return ``"float64"`` for small images, where it costs little, and ``"float32"`` for others.

    Second-order pooling divides by the variance of a block. Blocks of small images are often nearly constant. In
    float32 their variance is mostly rounding, which changes with the chunk size and shows in a probability's third
    decimal.
    """
    return "float64" if min(layout.image_shape[1:]) < SMALL_SIDE else "float32"


def configure(
    parameters: Mapping[str, Any],
    options: Any,
    layout: ImageLayout,
    classes: int,
    seed: int,
    choose: Callable[[dict[str, Any]], NetworkConfig],
) -> NetworkConfig:
    """Build the configuration: the preset or what ``choose`` finds for options, then ``options`` and parameters.

    A parameter that is None leaves the choice to ``options`` and the preset. Both may use either name of an option.
    Error messages use the estimator's name of it.
    """
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"options must be a dict, e.g. {{'posterior': 'softmax'}}, or None, got {options!r}.")
    named = {name: parameters[own] for name, own in PARAMETERS.items() if parameters.get(own) is not None}
    others: dict[str, Any] = {}
    for key, value in (options or {}).items():
        name = str(OPTION_OF.get(key, key))
        for known in (named, others):
            if name in known and not _same(known[name], value):
                own = PARAMETERS.get(name, name)
                raise ValueError(f"{own} must be given once, got {known[name]!r}, and {value!r} in options.")
        others[name] = value
    check_names(others, "options")
    preset = parameters["preset"]
    types = declared_types(NetworkConfig)
    try:
        given = {name: value for name, value in (others | named).items() if name in PARAMETERS}
        for name, value in given.items():  # the command line writes numbers as text, Python does not
            if types[name] in (int, float) and isinstance(value, str):
                raise OptionError(name, f"must be a number, got {value!r}.")
        asked = named | {"seed": seed} | others
        if preset is None:
            config = choose(options_for(layout) | asked)
        elif preset == PAPER:
            config = NetworkConfig(**(paper_settings(layout.image_shape, classes) | options_for(layout) | asked))
        else:
            config = NetworkConfig(**(load_preset(str(preset)) | asked))
        if named.get("patience") is not None and config.patience < 1:
            raise OptionError("patience", "must be at least 1, or None to add all layers, got 0.")
        check_asked_options(config, named | others)
    except OptionError as error:
        raise error.under_name(PARAMETERS.get(error.name, error.name)) from None
    return config


def _same(one: Any, other: Any) -> bool:
    """Return whether two values of an option are equal; a list equals a tuple of the same numbers."""
    one, other = (tuple(value) if isinstance(value, list) else value for value in (one, other))
    return bool(one == other)


def check_grows(fitted: Any, layout: ImageLayout, classes: NDArray[Any], config: NetworkConfig, held: Any) -> None:
    """Raise ValueError if a new fit cannot add layers to a fitted estimator's network.

    The new fit has this layout, classes and configuration; ``held`` are the indices of its validation images.
    """
    if layout != fitted._layout:
        raise ValueError(
            f"X must hold images of shape {fitted.image_shape_} with warm_start, got {layout.shape}. {FIT_AGAIN}"
        )
    if not np.array_equal(classes, fitted.classes_):
        raise ValueError(
            f"y must have the classes {fitted.classes_.tolist()} with warm_start, got {classes.tolist()}. {FIT_AGAIN}"
        )
    if (held is None) != (fitted._held is None) or not np.array_equal(held, fitted._held):
        raise ValueError(
            "validation images must stay the same with warm_start. Keep X, y, validation_fraction and "
            "n_iter_no_change, or use warm_start=False to fit again."
        )
    before, layers = fitted.network_.config, len(fitted.network_.layers)
    if config.layers < layers:
        raise ValueError(f"n_layers must be at least {layers} with warm_start, got {config.layers}. {FIT_AGAIN}")
    try:
        check_unchanged(before, config, ("layers",), "All layers share it: use warm_start=False to fit again.")
    except OptionError as error:
        raise error.under_name(PARAMETERS.get(error.name, error.name)) from None


def warn_if_none_was_added(before: int, after: int, wanted: int, stopped: StopReason | None) -> None:
    """Warn if a network has stopped by its own rules before the number of layers wanted."""
    if before == after < wanted:
        warnings.warn(
            f"no layer was added: there are {before} of {wanted}, and {stopped}. Use a greater n_iter_no_change, or "
            "options={'stop_at_zero_error': False}.",
            InputWarning,
            stacklevel=3,
        )
