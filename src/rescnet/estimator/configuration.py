"""The estimator's configuration: what follows from the images, its parameters, and rules of a warm start."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ConfigError, DataError
from ..config.choices import Config
from ..config.defaults import SMALL_SIDE
from ..config.network import NetworkConfig
from ..config.option import OptionError, check_unchanged, options_of
from ..config.presets import PAPER
from ..network.history import StopReason
from ..network.inputs import InputWarning
from ..network.layouts import ImageLayout

PARAMETERS: dict[str, str] = {
    name: entry.metadata["sklearn"] for name, entry in options_of(NetworkConfig).items() if entry.metadata["sklearn"]
}
"""The estimator's parameter of each option that has one."""
FIT_AGAIN = "Use warm_start=False to fit again."


def automatic_dtype(layout: ImageLayout) -> str:
    """Return ``"float64"`` for small images, where it costs little, and ``"float32"`` for others.

    Second-order pooling divides by the variance of a block. Blocks of small images are often nearly constant. In
    float32 their variance is mostly rounding, which changes with the chunk size and shows in a probability's third
    decimal.
    """
    return "float64" if min(layout.image_shape[1:]) < SMALL_SIDE else "float32"


def options_for(layout: ImageLayout) -> dict[str, Any]:
    """Return options that images need whatever the network is.

    Enlarged images have few different patches, which are seldom separated without error: every draw is accepted there.
    They may be rows of a table, whose mirror images mean nothing.
    """
    return {} if layout.enlargement == (1, 1) else {"tolerance": 1.0, "augment": ""}


def asked_config(parameters: Mapping[str, Any], layout: ImageLayout, seed: int) -> Config | NetworkConfig:
    """Return the configuration that the parameters ask for; the seed counts where nothing else sets one.

    Error messages use the names of the parameters.
    """
    given, named = parameters["config"], {}
    for option, name in PARAMETERS.items():
        if parameters[name] is not None and option != "seed":
            named[option] = parameters[name]
    if named.get("patience") == 0:
        raise under_parameter(OptionError("patience", "must be at least 1, or None to add all layers, got 0."))
    try:
        if isinstance(given, NetworkConfig):
            seeds = {} if parameters["random_state"] is None else {"seed": seed}
            return NetworkConfig(**(vars(given) | named | seeds))
        config = Config(given) if given is None or isinstance(given, str) else given
        if not isinstance(config, Config):
            raise ConfigError(f"config must be a rescnet.Config or the name of a preset, got {type(given).__name__}.")
        for option, value in named.items():
            if config.options.get(option, value) != value:
                rule = f"must be given once, got {value!r}, and {config.options[option]!r} in config."
                raise OptionError(option, rule)
        if config.options.get("seed", parameters["random_state"]) != parameters["random_state"]:
            if parameters["random_state"] is not None:
                raise OptionError("seed", "must be given once, got another one in config.")
            seed = config.options["seed"]
        needed = options_for(layout) if config.preset in (None, PAPER) else {}
        return Config(config.preset, **(needed | config.options | named | {"seed": seed}))
    except OptionError as error:
        raise under_parameter(error) from None


def under_parameter(error: OptionError) -> OptionError:
    """Return the error of an option under the name of its parameter."""
    return error.under_name(PARAMETERS.get(error.name, error.name))


def check_grows(fitted: Any, layout: ImageLayout, classes: NDArray[Any], config: Config | NetworkConfig) -> None:
    """Raise ValueError if a new fit of images and classes cannot add layers to a fitted estimator's network."""
    before = fitted._layout
    if (layout.shape, layout.channels, layout.image_shape) != (before.shape, before.channels, before.image_shape):
        raise DataError(
            f"X must hold images of shape {fitted.image_shape_} with warm_start, got {layout.shape}. {FIT_AGAIN}"
        )
    if not np.array_equal(classes, fitted.classes_):
        raise DataError(
            f"y must have the classes {fitted.classes_.tolist()} with warm_start, got {classes.tolist()}. {FIT_AGAIN}"
        )
    before, layers = fitted.model_.network.config, len(fitted.model_.network.layers)
    after = config if isinstance(config, NetworkConfig) else NetworkConfig(**(vars(before) | config.options))
    if after.layers < layers:
        raise ConfigError(f"n_layers must be at least {layers} with warm_start, got {after.layers}. {FIT_AGAIN}")
    try:
        check_unchanged(before, after, ("layers",), "All layers share it: use warm_start=False to fit again.")
    except OptionError as error:
        raise under_parameter(error) from None


def warn_if_none_was_added(before: int, after: int, wanted: int, stopped: StopReason | None) -> None:
    """Warn if a network has stopped by its own rules before the number of layers wanted."""
    if before == after < wanted:
        warnings.warn(
            f"no layer was added: there are {before} of {wanted}, and {stopped}. Use a greater n_iter_no_change, or "
            "config=rescnet.Config(stop_at_zero_error=False).",
            InputWarning,
            stacklevel=3,
        )
