"""Settings that follow from the images, and the estimator's names for the configuration's keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..config.network import NetworkConfig
from ..config.option import declared_types
from ..config.presets import SMALL_SIDE, check_keys, load_preset, suited_settings
from ..config.readout_options import check_readout_asked
from ..config.shared_options import check_shared
from .layouts import ImageLayout

PARAMETER_OF = {  # configuration key → the estimator's parameter
    "layers": "n_layers",
    "filters": "n_filters",
    "filter_size": "filter_size",
    "first_filter_size": "first_filter_size",
    "bank": "bank",
    "block_size": "block_size",
    "block_stride": "block_stride",
    "pyramid": "pyramid",
    "head": "head",
    "ridge": "ridge",
    "learning_rate": "learning_rate",
    "ceiling": "ceiling",
    "average": "average",
    "patience": "n_iter_no_change",
    "seed": "random_state",
}


def automatic_settings(layout: ImageLayout, classes: int) -> dict[str, Any]:
    """Return settings for images nobody has chosen settings for: :func:`rescnet.config.presets.suited_settings`.

    Enlarged images hold few different patches, which are seldom told apart without error: every draw is accepted there.
    """
    settings = suited_settings(layout.image_shape, classes)
    return settings if layout.enlargement == (1, 1) else settings | {"tolerance": 1.0}


def automatic_dtype(layout: ImageLayout) -> str:
    """Return ``"float64"`` for small images, where it costs nothing, and ``"float32"`` for others.

    Second-order pooling divides by the spread of a block. Small images, enlarged ones most of all, have blocks that are
    all but constant: in float32 what is left of their spread is rounding, which differs with the number of images
    computed at a time, and shows in the second or third decimal of a probability.
    """
    return "float64" if min(layout.image_shape[1:]) < SMALL_SIDE else "float32"


def configure(
    parameters: Mapping[str, Any], options: Any, preset: str | None, layout: ImageLayout, classes: int, seed: int
) -> NetworkConfig:
    """Build the configuration: the preset or what suits the images, then ``options``, then the named parameters.

    Parameters
    ----------
    parameters : mapping
        The estimator's parameters; None leaves the choice to the preset.
    options : mapping or None
        Any other keys of the configuration.
    preset : str or None
    layout : ImageLayout
    classes : int
    seed : int

    Raises
    ------
    ValueError
        One sentence, with the name the estimator has for the option.
    """
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"options is {options!r}: give a dict of settings, as {{'prior': 'equal'}}, or None.")
    others = dict(options or {})
    check_keys(others, "options")
    for key in others:
        if key in PARAMETER_OF:
            raise ValueError(f"options has {key!r}, which is a parameter: set {PARAMETER_OF[key]} instead.")
    settings = automatic_settings(layout, classes) if preset is None else load_preset(str(preset))
    named = {key: parameters.get(name) for key, name in PARAMETER_OF.items() if parameters.get(name) is not None}
    types = declared_types(NetworkConfig)
    for key, value in named.items():  # the command line writes numbers as text, Python does not
        if types[key] in (int, float) and isinstance(value, str):
            wanted = "a whole number" if types[key] is int else "a number"
            raise ValueError(f"{PARAMETER_OF[key]} is {value!r}: give {wanted}.")
    try:
        config = NetworkConfig(**(settings | others | named | {"seed": seed}))
        if named.get("patience") is not None and config.patience < 1:
            raise ValueError("patience is 0: choose at least 1, or None to add every layer asked for.")
        check_readout_asked(config.readout, others)
    except ValueError as error:
        raise ValueError(_in_estimators_words(str(error))) from None
    return config


def check_goes_on(before: NetworkConfig, after: NetworkConfig, layers: int) -> None:
    """Refuse to grow a network of some layers under settings its layers cannot share.

    Raises
    ------
    ValueError
        Fewer layers are asked for than there are, or a setting differs that all layers are computed with.
    """
    if after.layers < layers:
        raise ValueError(
            f"n_layers is {after.layers} but the fitted network has {layers} layers: with warm_start ask for at least "
            f"as many, or fit anew with warm_start=False."
        )
    check_shared(before, after, "fit anew with warm_start=False", PARAMETER_OF)


def _in_estimators_words(message: str) -> str:
    for entry in dataclasses.fields(NetworkConfig):
        if message.startswith(f"{entry.name} is ") and entry.name in PARAMETER_OF:
            return PARAMETER_OF[entry.name] + message.removeprefix(entry.name)
    return message
