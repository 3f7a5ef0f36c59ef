"""A new run of ``rescnet train``: its images, its wishes, and the facts about it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..base.errors import ConfigError
from ..base.text import parse_seconds
from ..config.choices import Config
from ..config.defaults import check_quality
from ..config.presets import PAPER, make_compute, preset_names
from .clock import STARTED
from .shared import command_line

RESUMED = ("resume", "root", "as_json", "tensorboard", "quiet")  # flags that a resumed run may have

if TYPE_CHECKING:
    import torch

    from ..config.compute import ComputeOptions
    from ..data import Dataset
    from ..training.fitting import Wishes
    from ..training.tensorboard import TensorBoardLog
    from ..training.workers import Workers
    from .training_run import TrainCommand


advanced: Any = partial(typer.Option, hidden=True)  # flags that only --help-all shows


@dataclass(frozen=True, kw_only=True)
class TrainFlags:
    """Flags of ``rescnet train`` that are no options of a configuration."""

    preset: Annotated[
        str | None,
        typer.Option(help=f"Settings to start from: {', '.join([PAPER, *preset_names()])}. Default: by the images."),
    ] = None
    quality: Annotated[
        str | None, typer.Option(help="fast, balanced or best: how much work to do for accuracy. (default balanced)")
    ] = None
    time_limit: Annotated[str | None, typer.Option(metavar="TIME", help="Time for the run, e.g. 60s, 10m or 2h.")] = (
        None
    )
    out: Annotated[Path | None, typer.Option(help="Folder of the model. Default: runs/<data set>-<date>-<time>.")] = (
        None
    )
    resume: Annotated[Path | None, typer.Option(metavar="MODEL", help="Continue the run in this folder.")] = None
    config: Annotated[Path | None, advanced(help="TOML file of options that override the preset.")] = None
    overwrite: Annotated[bool, advanced("--overwrite", help="Replace an existing model.")] = False
    root: Annotated[Path | None, advanced(help="Folder of the public data sets.")] = None
    image_size: Annotated[str | None, advanced(metavar="H,W", help="Fit the images of a folder to this size.")] = None
    strict: Annotated[bool, advanced("--strict", help="Refuse an image folder with problems (rescnet check).")] = False
    validation_fraction: Annotated[
        float | None,
        advanced(
            help="Fraction of training images used for validation, if there are no validation images. "
            "(default 0.1 with --patience, else 0)"
        ),
    ] = None
    refit: Annotated[
        bool,
        advanced("--refit", help="Train again on all images, with the depth that was best on the validation images."),
    ] = False
    limit: Annotated[int | None, advanced(help="Use about n training images.")] = None
    as_json: Annotated[bool, advanced("--json", help="Print JSON lines: one per layer, and one of the run.")] = False
    tensorboard: Annotated[Path | None, advanced(metavar="DIR", help="Folder of a TensorBoard log.")] = None
    quiet: Annotated[bool, advanced("--quiet", help="Print only the folder of the model, or JSON.")] = False

    def check_resumable(self) -> None:
        """Raise ConfigError if a flag is given that only a new run can have."""
        for entry in fields(self):
            if entry.name not in RESUMED and getattr(self, entry.name) not in (None, False):
                flag = entry.name.replace("_", "-")
                raise ConfigError(f"--{flag} must not be used with --resume. Leave it out.")


def new_run(
    source: str,
    flags: TrainFlags,
    options: dict[str, Any],
    compute_options: dict[str, Any],
    log: TensorBoardLog | None,
    workers: Workers,
) -> TrainCommand:
    """Return a new run; all its options are checked before its images are read."""
    from ..data.loading import is_folder
    from ..data.splits import hold_out_images
    from ..network.device import choose_device
    from ..saving import check_place
    from ..training.fitting import Wishes
    from .images import full_name
    from .training_run import TrainCommand

    config = Config(flags.preset, **options)
    if flags.config is not None:
        config = Config.read(flags.config, flags.preset, **options)
    wishes = Wishes(
        config=config,
        quality=check_quality(flags.quality or "balanced"),
        time_limit=None if flags.time_limit is None else parse_seconds(flags.time_limit),
        began=STARTED,
        validation_fraction=flags.validation_fraction,
        refit=flags.refit,
    )
    if config.preset not in (None, PAPER):  # it needs no images: its errors come before a download
        config.complete()
    compute = make_compute(flags.config, **compute_options)
    device = choose_device(compute.device) if workers.count == 1 else workers.device
    if flags.out is not None:
        check_place(flags.out, flags.overwrite)
    whole = _images(source, wishes, flags, compute, device, workers)
    dataset = hold_out_images(whole, 0.0, flags.limit, config.options.get("seed", 0))
    about = {
        "dataset": dataset.name,
        "source": full_name(source),
        "root": str(flags.root.resolve()) if flags.root else None,
        "image_size": f"{dataset.shape[1]},{dataset.shape[2]}" if is_folder(source) else None,
        **({"fit": "centre-crop"} if is_folder(source) else {}),
        "preset": config.preset,
        "quality": wishes.quality if config.preset is None else None,
        "command": command_line(),
        "limit": flags.limit,
    }
    return TrainCommand(
        dataset=dataset,
        wishes=wishes,
        compute=compute,
        device=str(device),
        place=flags.out or _new_place(dataset.name),
        about=about,
        overwrite=flags.overwrite,
        log=log,
        workers=workers,
    )


def _images(
    source: str,
    wishes: Wishes,
    flags: TrainFlags,
    compute: ComputeOptions,
    device: torch.device,
    workers: Workers,
) -> Dataset:
    """Return all images of a new run; a size that does not fit the network or the memory is refused before."""
    from ..data.loading import check_size, check_trainable
    from ..training.memory_plan import check_size_fits
    from .images import load_source, parse_size

    size = parse_size(flags.image_size)
    if size is not None:
        check_size(source, size)
        assert isinstance(wishes.config, Config)
        smallest = wishes.config.complete((1, *size), classes=2, images=2, quality=wishes.quality)
        check_size_fits(smallest, size, compute, device)
    whole = workers.first_alone(lambda: load_source(source, flags.root, size, strict=flags.strict))
    check_trainable(whole)
    classes = len(set(whole.train.labels.tolist()))
    if flags.limit is not None and flags.limit < min(2 * classes, len(whole.train)):
        raise ConfigError(f"limit must be at least {2 * classes} with {classes} classes, got {flags.limit}.")
    return whole


def _new_place(name: str) -> Path:
    """Return a folder that does not exist, named after the data set and the time."""
    first = Path("runs") / f"{name.replace(':', '-')}-{datetime.now():%Y%m%d-%H%M%S}"
    place, number = first, 1
    while place.exists():
        number += 1
        place = first.with_name(f"{first.name}-{number}")
    return place
