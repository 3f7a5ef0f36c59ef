"""How a configuration is put together: a preset, a file over it, options over both.

One key an option, the same key in a preset, in a file given with ``--config``, as a flag (``--block-size``) and in
Python. Presets are TOML files in ``rescnet/presets``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any

from .compute import ComputeOptions
from .network import NetworkConfig
from .option import declared_types
from .readout_options import check_readout_asked

SMALL_SIDE = 16  # pixels: images with a smaller side are treated like the digits
MANY_CLASSES = 10  # of more than these the paper's votes turn all signs at once (docs/ablations.md)
SHARES = {"head": "multiclass-lda", "posterior": "sigmoid-shares"}  # as the presets of CIFAR vote


def preset_names() -> list[str]:
    """Return the names of the presets."""
    return sorted(file.name[:-5] for file in resources.files(__package__).joinpath("presets").iterdir())


def load_preset(name: str) -> dict[str, Any]:
    """Return the options of a preset; an unknown name is an error that tells the nearest one."""
    if name not in preset_names():
        near = get_close_matches(name, preset_names(), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(preset_names())}."
        raise ValueError(f"there is no preset {name!r}: {hint}")
    return tomllib.loads(resources.files(__package__).joinpath("presets", f"{name}.toml").read_text("utf-8"))


def load_file(path: str | Path) -> dict[str, Any]:
    """Return the options in a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no configuration file {str(path)!r}: check the path.") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): give a TOML file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}.") from None


def make_config(
    preset: str | None = None,
    file: str | Path | None = None,
    *,
    image_shape: tuple[int, int, int] | None = None,
    classes: int | None = None,
    **overrides: Any,
) -> NetworkConfig:
    """Build a configuration: a preset, then a file over it, then keyword options over both.

    Without a preset, ``image_shape`` (channels, height, width) gives the settings that suit such images, of so many
    ``classes``.

    Examples
    --------
    >>> make_config("cifar10", layers=50).block_size
    16
    >>> make_config(image_shape=(1, 8, 8)) == make_config("digits")
    True
    """
    if preset is None and image_shape is not None:
        start = suited_settings(image_shape, classes)
    else:
        start = load_preset(preset) if preset else {}
    options: dict[str, Any] = {}
    from_file = _keys_of(load_file(file) if file else {}, NetworkConfig, str(file))
    for source, values in (
        (f"the preset {preset}", start),
        (str(file), from_file),
        ("this call", overrides),
    ):
        check_keys(values, source)
        options |= values
    config = NetworkConfig(**options)
    for asked in (from_file, overrides):
        check_readout_asked(config.readout, asked)
    return config


def make_compute(file: str | Path | None = None, **overrides: Any) -> ComputeOptions:
    """Build the options of the machine: those in a file, which may hold the network's too, then keywords over them."""
    return ComputeOptions(**(_keys_of(load_file(file) if file else {}, ComputeOptions, str(file)) | overrides))


def suited_settings(image_shape: tuple[int, int, int], classes: int | None = None) -> dict[str, Any]:
    """Return settings for images (channels, height, width) that nobody has chosen settings for.

    Small images (a side under 16 pixels) get the ``digits`` preset. Larger ones get the defaults, with blocks half as
    large as the shorter side and an eighth of it apart, as the paper has them on 32×32 and 64×64 images; grey ones
    larger filters first, since 3×3 grey patches have only nine principal components; in colour, PCA filters with drawn
    signs, and multi-class scores with posteriors that sum to 1, as CIFAR's presets have them: both are ahead there with
    few images (docs/ablations.md). More than ten classes vote like that in grey too.
    """
    channels, height, width = image_shape
    side = min(height, width)
    if side < SMALL_SIDE:
        settings = load_preset("digits")
    else:
        settings = {"block_size": side // 2, "block_stride": side // 8}
        settings |= {"first_filter_size": 7} if channels < 3 else {"pca_signs": "drawn", **SHARES}
    if classes is not None and classes > MANY_CLASSES:
        settings |= SHARES
    return settings


def _keys_of(values: Mapping[str, Any], owner: type, source: str) -> dict[str, Any]:
    """Return the values that are fields of one owner, after refusing what is a field of none."""
    check_keys(values, source, NetworkConfig, ComputeOptions)
    return {key: value for key, value in values.items() if key in declared_types(owner)}


def check_keys(values: Mapping[str, Any], source: str, *owners: type) -> None:
    """Refuse an unknown key, naming the nearest one; without owners those of the network are known."""
    known = [name for owner in owners or (NetworkConfig,) for name in declared_types(owner)]
    for key in values:
        if key not in known:
            near = get_close_matches(key, known, 1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(known)}."
            raise ValueError(f"{source} has an unknown option {key!r}: {hint}")
