"""The options that a user sets; all others follow from a preset, or from the images."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from ..base.text import nearest
from .defaults import QUALITIES, Quality, check_quality, default_settings
from .grammars import Augmentation
from .network import NetworkConfig
from .option import OptionError, declared_types, options_of, validated
from .presets import (
    PAPER,
    USUAL_CLASSES,
    check_asked_options,
    check_names,
    load_preset,
    options_in_file,
    paper_settings,
    preset_names,
)

SOME_IMAGES = 1000  # if their number is not known

P = ParamSpec("P")
R = TypeVar("R")
MOVED = {  # former names, and names of other calls
    "memory": "max_memory=...",
    "preset": "config='cifar10'",
    "options": "config=rescnet.Config(ridge=0.5)",
    "sample_weight": "weights=...",
    "random_state": "config=rescnet.Config(seed=...)",
    "device": "compute=rescnet.ComputeOptions(device=...)",
}


class Config:
    """Options of a network that are set; all others follow from the preset, or from the images.

    scikit-learn reads and sets them: ``{"config__ridge": [0.5, 2]}`` searches an option.

    Parameters
    ----------
    preset : str, optional
        Settings to start from: one of :func:`rescnet.preset_names`, or ``"paper"``, the paper's network sized to the
        images. None is the default network for the images, which is ours.
    **options
        Options of :class:`rescnet.NetworkConfig`, e.g. ``ridge=0.5``. None leaves an option to the preset or images.

    Examples
    --------
    >>> Config("cifar10", layers=50)
    Config('cifar10', layers=50)
    >>> Config(ridge=0.5).complete((3, 32, 32), classes=10, images=500).layers
    3
    """

    def __init__(self, preset: str | None = None, **options: Any) -> None:
        if preset is not None and preset != PAPER:
            load_preset(preset)
        check_names(options, "Config")
        for name, value in options.items():
            if value is not None:
                _check(name, value)
        self.preset = preset
        self._options = {name: value for name, value in options.items() if value is not None}

    @classmethod
    def read(cls, file: str | Path, preset: str | None = None, **options: Any) -> Self:
        """Return the options in a TOML file; keywords override them."""
        return cls(preset, **(options_in_file(file) | options))

    @property
    def options(self) -> dict[str, Any]:
        """The options that are set, by name."""
        return {name: list(value) if isinstance(value, list) else value for name, value in self._options.items()}

    def but(self, **options: Any) -> Config:
        """Return the same choices with further options set."""
        return Config(self.preset, **(self._options | options))

    def complete(
        self,
        image_shape: tuple[int, int, int] | None = None,
        classes: int | None = None,
        images: int | None = None,
        quality: Quality = "balanced",
    ) -> NetworkConfig:
        """Return the complete configuration for images (channels, height, width); most presets need no images.

        It is that of :func:`rescnet.train`, but for what it finds out by trials on the images: whether mirror images
        are added, and what fits in a time limit.
        """
        if self.preset is not None and self.preset != PAPER:
            start = load_preset(self.preset)
        elif image_shape is None:
            preset = "preset 'paper'" if self.preset else "no preset"
            raise OptionError("image_shape", f"must be given with {preset}, since the network follows from it.")
        elif self.preset == PAPER:
            start = paper_settings(image_shape, classes)
        else:
            number = SOME_IMAGES if images is None else images
            start = default_settings(image_shape, number, classes or USUAL_CLASSES, check_quality(quality))
        config = NetworkConfig(**(start | self._options))
        check_asked_options(config, self._options)
        return config

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the preset and all options; None for those that are not set. scikit-learn calls it."""
        return {"preset": self.preset, **dict.fromkeys(declared_types(NetworkConfig)), **self._options}

    def set_params(self, **options: Any) -> Self:
        """Set options; None leaves one to the preset or the images. scikit-learn calls it."""
        changed = Config(**(self.get_params() | options))
        self.preset, self._options = changed.preset, changed._options
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("preset", "_options"):
            raise AttributeError(f"a Config is not changed by attributes, got {name!r}. Use set_params({name}=...).")
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.get_params() == other.get_params()

    __hash__ = None  # type: ignore[assignment]  # it can change

    def __repr__(self) -> str:
        preset = [] if self.preset is None else [repr(self.preset)]
        return f"Config({', '.join([*preset, *(f'{name}={value!r}' for name, value in self._options.items())])})"


def starting_point(
    config: NetworkConfig,
    about: Mapping[str, Any],
    image_shape: tuple[int, int, int],
    classes: int,
    fitted: int | None = None,
) -> tuple[str | None, NetworkConfig]:
    """Return what a network's options started from: a preset and its name, or the default network and None.

    ``about`` are the facts about its run. Without the number of training images there, it is that of the readout,
    ``fitted``. Mirror images are a default where the network has them, since a trial on the images decides.
    """
    preset = about.get("preset")
    if preset in (PAPER, *preset_names()):
        return preset, Config(preset).complete(image_shape, classes)
    images = (about.get("images") or {}).get("train") or fitted or SOME_IMAGES
    quality: Quality = about["quality"] if about.get("quality") in QUALITIES else "balanced"
    mirrored = config.augment == "flip"
    return None, NetworkConfig(**default_settings(image_shape, images, classes, quality, mirrored))


def _check(name: str, value: Any) -> None:
    """Raise ConfigError unless an option can have this value; text is no number in Python."""
    if declared_types(NetworkConfig)[name] in (int, float) and isinstance(value, str):
        raise OptionError(name, f"must be a number, got {value!r}.")
    validated(name, value, NetworkConfig)
    if name in ("augment", "test_views"):
        Augmentation.parse(value, name)
    elif name == "kernel_copies":
        Augmentation.parse_copies(value)


def refuses_unknown(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose error of an unknown or former parameter says what to write."""
    owner = function.__qualname__.removesuffix(".__init__")
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @wraps(function)
    def checked(*values: P.args, **parameters: P.kwargs) -> R:
        for name in parameters.keys() - set(known):
            option = name.removeprefix("n_")
            own = options_of(NetworkConfig)[option].metadata["sklearn"] if option in options_of(NetworkConfig) else ""
            if own in known:
                remedy = f"Write {own}=...."
            elif option in options_of(NetworkConfig):
                remedy = f"Write config=rescnet.Config({option}=...)."
            elif name in MOVED:
                remedy = f"Write {MOVED[name]}."
            else:
                remedy = nearest(name, known).strip() or f"Parameters: {', '.join(known)}."
            raise TypeError(f"{owner} has no parameter {name!r}. {remedy}")
        return function(*values, **parameters)

    return checked
