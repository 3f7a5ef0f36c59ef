"""Options in presets and files, and checks of those that a user sets.

An option has the same name in a preset, in a TOML file (``--config``), as a flag (``--block-stride``) and in Python.
Presets are TOML files in ``rescnet/config/presets``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from ..base.errors import ConfigError
from ..base.text import nearest
from .compute import ComputeOptions
from .defaults import SMALL_SIDE
from .grammars import Augmentation
from .network import NetworkConfig
from .option import OptionError, declared_types, options_of

PAPER = "paper"  # preset that follows from the images, so that it has no file
USUAL_CLASSES = 10  # if their number is not known; with more the paper's posteriors turn all signs at once
NORMALISED = {"head": "multiclass-lda", "posterior": "normalised-sigmoid"}


def preset_names() -> list[str]:
    """Return the names of the presets."""
    folder = resources.files(__package__).joinpath("presets")
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def load_preset(name: str) -> dict[str, Any]:
    """Return the options of a preset."""
    if name not in preset_names():
        known = [PAPER, *preset_names()]
        raise ConfigError(f"preset must be one of {', '.join(known)}, got {name!r}.{nearest(name, known)}")
    return tomllib.loads(resources.files(__package__).joinpath("presets", f"{name}.toml").read_text("utf-8"))


def load_file(path: str | Path) -> dict[str, Any]:
    """Return the options in a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"configuration file must be readable, got {str(path)!r} ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration file must be TOML, got {str(path)!r}: {error}.") from None


def options_in_file(file: str | Path | None) -> dict[str, Any]:
    """Return the network's options in a TOML file; none without a file."""
    return _options_in(load_file(file), NetworkConfig, str(file)) if file else {}


def make_compute(file: str | Path | None = None, **overrides: Any) -> ComputeOptions:
    """Build the options of the machine from a file, then keywords."""
    return ComputeOptions(**(_options_in(load_file(file) if file else {}, ComputeOptions, str(file)) | overrides))


def paper_settings(image_shape: tuple[int, int, int], classes: int | None = None) -> dict[str, Any]:
    """Return the paper's network for images (channels, height, width) that it does not mention.

    Small images (a side under 16 pixels) get the ``digits`` preset. Larger ones get the paper's defaults, with blocks
    of half the shorter side, an eighth of it apart. Grey images get larger filters first: 3×3 grey patches have only
    nine principal components. Colour images get CIFAR's PCA signs, and multi-class scores with posteriors that sum to
    1, as do more than ten classes.
    """
    channels, height, width = image_shape
    side = min(height, width)
    if side < SMALL_SIDE:
        settings = load_preset("digits")
    else:
        settings = {"block_sizes": [side // 2], "block_stride": side // 8}
        settings |= {"first_filter_size": 7} if channels < 3 else {"pca_signs": "drawn", **NORMALISED}
    if classes is not None and classes > USUAL_CLASSES:
        settings |= NORMALISED
    return settings


def check_asked_options(config: NetworkConfig, asked: Mapping[str, Any]) -> None:
    """Raise an error for options that were given and have no effect; a preset or a saved model may have them.

    These are options of a kernel readout where there is none (a file that chooses the kernel itself may keep them),
    mixtures of banks that no layer of a stack would use, and copies of an image without a change.
    """
    if {"bank", "stack_depth"} & asked.keys() and 0 < config.stack_depth < (mixtures := config.bank.count(";") + 1):
        rule = f"must name at most {config.stack_depth} mixtures, one per layer of a stack, got {mixtures}."
        raise OptionError("bank", f"{rule} Set stack_depth.")
    if "kernel_copies" in asked:
        copies, changes = Augmentation.parse_copies(config.kernel_copies)
        if copies > 0 and changes == Augmentation():
            raise OptionError("kernel_copies", f"must name a change, e.g. '4 shift 2', got {config.kernel_copies!r}.")
        if copies > 1 and not changes.is_random:
            raise OptionError("kernel_copies", f"must be one copy with 'flip' alone, got {config.kernel_copies!r}.")
    if config.has_kernel or asked.get("readout", "heads") != "heads":
        return
    for name, entry in options_of(NetworkConfig).items():
        of_kernel = entry.metadata["group"] == "Readout" and name != "readout"
        if of_kernel and asked.get(name, entry.default) != entry.default:
            raise OptionError(name, f"must be used with readout 'kernel', got readout {config.readout!r}.")


def check_names(values: Mapping[str, Any], source: str, *owners: type) -> None:
    """Raise ValueError for a name that is no option of the owners; by default those of the network."""
    known = [name for owner in owners or (NetworkConfig,) for name in declared_types(owner)]
    for name in values:
        if name not in known:
            hint = nearest(name, known, cutoff=0.5)
            raise ConfigError(f"option names must be known, got {name!r} in {source}.{hint}")


def _options_in(values: Mapping[str, Any], owner: type, source: str) -> dict[str, Any]:
    """Return the values that are options of one owner; unknown names are an error."""
    check_names(values, source, NetworkConfig, ComputeOptions)
    return {name: value for name, value in values.items() if name in declared_types(owner)}
