"""``rescnet train``: learn a model from images, layer by layer."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..config.presets import PAPER, make_compute, preset_names
from ..errors import ConfigError
from .new_run import NewRunFlags, new_run
from .shared import Source, given, with_flags

if TYPE_CHECKING:
    from .training_run import TrainCommand

advanced: Any = partial(typer.Option, hidden=True)  # options that only --help-all shows


@with_flags(NetworkConfig, ComputeOptions)
def train(
    source: Source = None,
    preset: Annotated[
        str | None,
        typer.Option(help=f"Settings to start from: {', '.join([PAPER, *preset_names()])}. Default: by the images."),
    ] = None,
    quality: Annotated[
        str | None, typer.Option(help="fast, balanced or best: how much work to do for accuracy. (default balanced)")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time for the run, e.g. 60s, 10m or 2h.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the model. Default: runs/<data set>-<date>-<time>.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="MODEL", help="Continue the run in this folder.")] = None,
    config: Annotated[Path | None, advanced(help="TOML file of options that override the preset.")] = None,
    overwrite: Annotated[bool, advanced("--overwrite", help="Replace an existing model.")] = False,
    root: Annotated[Path | None, advanced(help="Folder of the public data sets.")] = None,
    image_size: Annotated[str | None, advanced(metavar="H,W", help="Fit the images of a folder to this size.")] = None,
    strict: Annotated[bool, advanced("--strict", help="Refuse an image folder with problems (rescnet check).")] = False,
    validation_fraction: Annotated[
        float | None,
        advanced(
            help="Fraction of training images used for validation, if there are no validation images. "
            "(default 0.1 with --patience, else 0)"
        ),
    ] = None,
    refit: Annotated[
        bool,
        advanced("--refit", help="Train again on all images, with the depth that was best on the validation images."),
    ] = False,
    limit: Annotated[int | None, advanced(help="Use about n training images.")] = None,
    as_json: Annotated[bool, advanced("--json", help="Print JSON lines: one per layer, and one of the run.")] = False,
    tensorboard: Annotated[Path | None, advanced(metavar="DIR", help="Folder of a TensorBoard log.")] = None,
    quiet: Annotated[bool, advanced("--quiet", help="Print only the folder of the model, or JSON.")] = False,
    **options: Any,
) -> None:
    """Train a network.

    Without SOURCE it trains on the digits of scikit-learn. An image folder has one sub-folder of images per class.

    Ctrl-C keeps the finished layers as a usable model; --resume continues the run, also after a kill.

    Two examples:

      rescnet train mnist --out my-mnist

      rescnet train my-images/ --layers 40 --patience 5 --augment "flip + shift 2"
    """
    from ..saving import ModelFolder
    from ..training.tensorboard import TensorBoardLog
    from ..training.workers import join_workers
    from .resume import resume_run, say_complete

    flags = NewRunFlags(
        preset=preset,
        quality=quality,
        time_limit=time_limit,
        config=config,
        out=out,
        overwrite=overwrite,
        image_size=image_size,
        strict=strict,
        validation_fraction=validation_fraction,
        refit=refit,
        limit=limit,
    )
    network, machine = given(options, NetworkConfig), given(options, ComputeOptions)
    if resume is not None and (used := flags.used()):
        raise ConfigError(f"--{used[0].replace('_', '-')} must not be used with --resume. Leave it out.")
    with join_workers(make_compute(config, **machine).device) as workers:
        log = TensorBoardLog(tensorboard) if tensorboard and workers.is_rank0 else None
        console = Console(stderr=as_json, quiet=quiet or not workers.is_rank0)
        command: TrainCommand | None
        if resume is None:
            command = new_run(source or "digits", root, network, machine, flags, log, workers)
        else:
            command = resume_run(resume, source, root, network, machine, log, workers)
        if command is not None:
            command.run(console, as_json)
        elif workers.is_rank0:
            say_complete(console, as_json, ModelFolder.open(str(resume)))
        if quiet and not as_json and workers.is_rank0:
            typer.echo(command.place if command else resume)
