"""``rescnet train``: images in, a model's folder out, layer by layer."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..config.presets import make_compute, make_config, preset_names
from .config_flags import given, with_flags
from .source_argument import Source, SourceOption, the_one_named

if TYPE_CHECKING:
    from ..training.distributed.workers import Workers
    from ..training.listeners.tensorboard import TensorBoardLog
    from .training_run import TrainingRun

HELD_OUT = 0.2  # share of the training images, unless another is asked for


@with_flags(NetworkConfig, ComputeOptions)
def train(
    source: Source = None,
    dataset: SourceOption = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"Settings to start from: {', '.join(preset_names())}; else the set's own, or what suits its images.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of options that override the preset's.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the model; by default runs/<set>-<date>-<time>.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Go on with the run in this folder, as it began.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    half_heads: Annotated[
        bool, typer.Option("--half-heads", help="Save heads in half precision, and tell the accuracy it costs.")
    ] = False,
    root: Annotated[Path | None, typer.Option(help="Folder of the public sets.", show_default=False)] = None,
    image_size: Annotated[
        str | None,
        typer.Option(metavar="H,W", help="Resize the images of a folder; they are not otherwise.", show_default=False),
    ] = None,
    validation_fraction: Annotated[
        float | None,
        typer.Option(
            help="Share of training images held out, unless the set has validation images; 0: none (default 0.2).",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Use about so many training images.", show_default=False)] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines on stdout: one a layer, then one of the run.")
    ] = False,
    tensorboard: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to log every layer to for TensorBoard.", show_default=False),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but the model's folder, or JSON.")] = False,
    **options: Any,
) -> None:
    """Train a network; every option of the configuration is a flag.

    Without an argument: the digits inside scikit-learn, a fifth of them held out.

    Ctrl-C leaves a usable model of the layers finished so far; --resume goes on with it, also after a kill.
    """
    from ..training.distributed.workers import join_workers
    from ..training.listeners.tensorboard import TensorBoardLog
    from .resume import take_up

    source = the_one_named(source, dataset)
    overrides, machine = given(options, NetworkConfig), given(options, ComputeOptions)
    fixed: dict[str, Any] = {
        "preset": preset,
        "config": config,
        "out": out,
        "overwrite": overwrite,
        "half_heads": half_heads,
        "image_size": image_size,
        "validation_fraction": validation_fraction,
        "limit": limit,
    }
    if resume is not None:
        _refuse_with_resume(fixed)
    with join_workers(make_compute(config, **machine).device) as workers:
        log = TensorBoardLog(tensorboard) if tensorboard and workers.is_rank0 else None
        if resume is not None:
            run = take_up(resume, source, root, overrides, machine, log, workers)
        else:
            run = _begin(source or "digits", root, overrides, machine, log, workers, **fixed)
        run.go(Console(stderr=as_json, quiet=quiet or not workers.is_rank0), as_json)
        if quiet and not as_json and workers.is_rank0:
            typer.echo(run.place)


def _begin(
    source: str,
    root: Path | None,
    overrides: dict[str, Any],
    machine: dict[str, Any],
    log: TensorBoardLog | None,
    workers: Workers,
    *,
    preset: str | None,
    config: Path | None,
    out: Path | None,
    overwrite: bool,
    half_heads: bool,
    image_size: str | None,
    validation_fraction: float | None,
    limit: int | None,
) -> TrainingRun:
    """Return a new run; what is wrong with it is told before any work."""
    from ..data.splits import hold_out_images
    from ..experiments.provenance import command_line
    from ..model_files import check_place
    from ..network.device import choose_device
    from .sources import full_name, load_source, parse_size
    from .splits import check_classes, check_limit, describe_held_out
    from .training_run import TrainingRun

    if preset is None:
        preset = source if source in preset_names() else None
    network_config = make_config(preset, config, **overrides)
    compute = make_compute(config, **machine)
    device = choose_device(compute.device) if workers.count == 1 else workers.device
    if out is not None:
        check_place(out, overwrite)
    whole = load_source(source, root, parse_size(image_size))
    check_classes(whole)
    if preset is None:  # nobody has chosen settings for these images
        network_config = make_config(None, config, image_shape=whole.shape, classes=len(whole.class_names), **overrides)
    fraction = HELD_OUT if validation_fraction is None else validation_fraction
    check_limit(whole, limit)
    dataset = hold_out_images(whole, fraction, limit, network_config.seed)
    about = {
        "dataset": dataset.name,
        "source": full_name(source),
        "root": str(root.resolve()) if root else None,
        "image_size": image_size,
        "preset": preset,
        "command": command_line(),
        "seed": network_config.seed,
        "held_out": describe_held_out(dataset, fraction, limit, network_config.seed),
    }
    return TrainingRun(
        dataset=dataset,
        config=network_config,
        compute=compute,
        device=str(device),
        place=out or _new_place(dataset.name),
        about=about,
        half_heads=half_heads,
        overwrite=overwrite,
        log=log,
        workers=workers,
    )


def _refuse_with_resume(values: dict[str, Any]) -> None:
    """Refuse options that a run cannot change once it has begun."""
    for name, value in values.items():
        if value is not None and value is not False:
            raise ValueError(
                f"--{name.replace('_', '-')} cannot be given with --resume, which goes on as the run began."
            )


def _new_place(name: str) -> Path:
    """Return a folder that is not there yet, named after the data set and the time."""
    first = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    place, number = first, 1
    while place.exists():
        number += 1
        place = first.with_name(f"{first.name}-{number}")
    return place
