"""The options that a user sets; all others follow from a preset, or from the images."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from ..text import nearest
from .defaults import Quality
from .network import NetworkConfig
from .option import OptionError, declared_types, options_of, validated
from .presets import PAPER, check_names, load_preset, make_config, options_in_file

P = ParamSpec("P")
R = TypeVar("R")
MOVED = {"memory": "max_memory=...", "preset": "config='cifar10'", "options": "config=rescnet.Config(ridge=0.5)"}


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
        return dict(self._options)

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
        if self.preset is None and image_shape is None:
            raise OptionError("image_shape", "must be given without a preset, since the network follows from it.")
        sizes: dict[str, Any] = {"image_shape": image_shape, "classes": classes, "quality": quality}
        if self.preset is not None:
            del sizes["quality"]
        elif images is not None:
            sizes["images"] = images
        return make_config(self.preset, **sizes, **self._options)

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the preset and all options; None for those that are not set. scikit-learn calls it."""
        return {"preset": self.preset, **dict.fromkeys(declared_types(NetworkConfig)), **self._options}

    def set_params(self, **options: Any) -> Self:
        """Set options; None leaves one to the preset or the images. scikit-learn calls it."""
        changed = Config(**(self.get_params() | options))
        self.preset, self._options = changed.preset, changed._options
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.get_params() == other.get_params()

    __hash__ = None  # type: ignore[assignment]  # it can change

    def __repr__(self) -> str:
        preset = [] if self.preset is None else [repr(self.preset)]
        return f"Config({', '.join([*preset, *(f'{name}={value!r}' for name, value in self._options.items())])})"


def _check(name: str, value: Any) -> None:
    """Raise ConfigError unless an option can have this value; text is no number in Python."""
    if declared_types(NetworkConfig)[name] in (int, float) and isinstance(value, str):
        raise OptionError(name, f"must be a number, got {value!r}.")
    validated(name, value, NetworkConfig)


def refuses_unknown(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose error of an unknown or former parameter says what to write."""
    owner = function.__qualname__.removesuffix(".__init__")
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @wraps(function)
    def checked(*values: P.args, **parameters: P.kwargs) -> R:
        for name in parameters.keys() - set(known):
            option = name.removeprefix("n_")
            if option in options_of(NetworkConfig):
                remedy = f"Write config=rescnet.Config({option}=...)."
            elif name in MOVED:
                remedy = f"Write {MOVED[name]}."
            else:
                remedy = nearest(name, known).strip() or f"Parameters: {', '.join(known)}."
            raise TypeError(f"{owner} has no parameter {name!r}. {remedy}")
        return function(*values, **parameters)

    return checked
