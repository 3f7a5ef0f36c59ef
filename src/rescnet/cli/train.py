"""``rescnet train``: learn a model from images, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..config.compute import ComputeOptions
from ..config.defaults import Quality, check_quality
from ..config.network import NetworkConfig
from ..config.presets import (
    PAPER,
    check_readout_options,
    make_compute,
    make_config,
    options_in_file,
    preset_names,
)
from ..formatting import count, parse_seconds, show_seconds
from .clock import since_start
from .shared import Source, SourceOption, command_line, given, one_source, with_flags

if TYPE_CHECKING:
    from ..data import Dataset
    from ..training.choice import Choice
    from ..training.distributed.workers import Workers
    from ..training.listeners import TensorBoardLog
    from .training_run import TrainCommand

VALIDATION_FRACTION = 0.2
advanced: Any = partial(typer.Option, hidden=True)  # options that only --help-all shows


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """Arguments of ``rescnet train`` that decide which run it is.

    ``options`` are those of the network and ``compute_options`` those of the machine that were given as flags. ``new``
    has the other flags of a new run, by parameter; a resumed run has none of them.
    """

    source: str | None
    root: Path | None
    options: dict[str, Any]
    compute_options: dict[str, Any]
    new: dict[str, Any]


@with_flags(NetworkConfig, ComputeOptions)
def train(
    source: Source = None,
    dataset: SourceOption = None,
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
    cache: Annotated[
        bool, advanced("--cache", help="Keep the decoded images of a folder in a file beside it, for the next run.")
    ] = False,
    validation_fraction: Annotated[
        float | None,
        advanced(
            help="Fraction of training images used for validation, if there are no validation images. 0 uses none. "
            f"(default {VALIDATION_FRACTION} with a preset or --patience, else 0)"
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
    from ..model_files import ModelFolder
    from ..training.distributed.workers import join_workers
    from ..training.listeners import TensorBoardLog
    from .resume import resume_run, say_complete

    request = TrainRequest(
        source=one_source(source, dataset),
        root=root,
        options=given(options, NetworkConfig),
        compute_options=given(options, ComputeOptions),
        new={
            "preset": preset,
            "quality": quality,
            "time_limit": time_limit,
            "config": config,
            "out": out,
            "overwrite": overwrite,
            "image_size": image_size,
            "strict": strict,
            "cache": cache,
            "validation_fraction": validation_fraction,
            "refit": refit,
            "limit": limit,
        },
    )
    if resume is not None:
        _check_flags_of_resume(request)
    with join_workers(make_compute(config, **request.compute_options).device) as workers:
        log = TensorBoardLog(tensorboard) if tensorboard and workers.is_rank0 else None
        console = Console(stderr=as_json, quiet=quiet or not workers.is_rank0)
        command: TrainCommand | None
        if resume is None:
            command, whole = _new_run(request, log, workers)
        else:
            command = resume_run(resume, request, log, workers)
        if command is not None:
            command.run(console, as_json)
        elif workers.is_rank0:
            say_complete(console, as_json, ModelFolder.open(str(resume)))
        if refit and command is not None:
            _refitted(command, whole).run(console, as_json)
        if quiet and not as_json and workers.is_rank0:
            typer.echo(command.place if command else resume)


def _new_run(request: TrainRequest, log: TensorBoardLog | None, workers: Workers) -> tuple[TrainCommand, Dataset]:
    """Return a new run and all images; all its options are checked before any work starts."""
    from ..data.loading import check_size, check_trainable
    from ..data.splits import fingerprint, hold_out_images
    from ..model_files import check_place
    from ..network.device import choose_device
    from ..training.memory_plan import check_size_fits
    from .images import check_limit, fit_facts, full_name, load_source, parse_size
    from .training_run import TrainCommand

    new, source, preset = request.new, request.source or "digits", request.new["preset"]
    limit = None if new["time_limit"] is None else parse_seconds(new["time_limit"])
    quality = check_quality(new["quality"] or "balanced")
    if preset and new["quality"]:
        raise ValueError(f"quality must not be used with a preset, got {quality} and {preset}. Leave one out.")
    # A preset needs no images: its errors come before a download.
    config = make_config(preset, new["config"], **request.options) if preset not in (None, PAPER) else None
    compute = make_compute(new["config"], **request.compute_options)
    device = choose_device(compute.device) if workers.count == 1 else workers.device
    if new["out"] is not None:
        check_place(new["out"], new["overwrite"])
    if size := parse_size(new["image_size"]):
        check_size(source, size)
        few: Any = {"image_shape": (1, *size), "classes": 2, "images": 2}
        few |= {} if preset else {"quality": quality}
        check_size_fits(config or make_config(preset, new["config"], **few, **request.options), size, compute, device)
    whole = workers.first_alone(
        lambda: load_source(source, request.root, size, strict=new["strict"], cache=new["cache"])
    )
    check_trainable(whole)
    check_limit(whole, new["limit"])
    fraction = new["validation_fraction"]
    if config is None and preset == PAPER:
        classes = len(whole.class_names)
        config = make_config(PAPER, new["config"], image_shape=whole.shape, classes=classes, **request.options)
    asked = options_in_file(new["config"]) | request.options
    if fraction is None and (config is not None or asked.get("patience")):
        fraction = VALIDATION_FRACTION
    seed = config.seed if config else asked.get("seed", 0)
    held_out = {"fraction": fraction or 0.0, "limit": new["limit"], "seed": seed}
    dataset = hold_out_images(whole, **held_out)
    notes: tuple[str, ...] = ()
    if config is None:
        choice = _chosen(dataset, compute, quality, limit, asked, workers)
        config = choice.config
        notes = (*choice.notes, f"choice of the network: {show_seconds(choice.seconds)}") if choice.notes else ()
    limit = None if limit is None else max(1.0, limit - since_start())
    about = {
        "dataset": dataset.name,
        "source": full_name(source),
        "root": str(request.root.resolve()) if request.root else None,
        **fit_facts(source, dataset),
        "preset": preset,
        "quality": None if preset else quality,
        "command": command_line(),
        "seed": config.seed,
        "held_out": held_out | {"sha256": fingerprint(dataset.validation)},
    }
    if new["refit"] and (dataset.validation is None or limit is not None):
        raise ValueError(
            "refit must be used with validation images and without a time limit. Set a validation fraction or patience."
        )
    command = TrainCommand(
        dataset=dataset,
        config=config,
        compute=compute,
        device=str(device),
        place=new["out"] or _new_place(dataset.name),
        about=about,
        overwrite=new["overwrite"],
        log=log,
        notes=(*dataset.notes, *notes),
        workers=workers,
        time_limit=limit,
    )
    return command, whole


def _refitted(command: TrainCommand, whole: Dataset) -> TrainCommand:
    """Return the run on all images, with the depth of a finished run, whose model it replaces when it is complete."""
    from ..data.splits import hold_out_images, join_validation
    from ..model_files import ModelFolder

    workers = command.workers
    sent = str(ModelFolder.open(command.place).depth).encode() if workers.is_rank0 else b""
    depth = int(workers.broadcast_bytes(sent))
    held_out = command.about["held_out"] | {"fraction": 0.0, "sha256": None}
    dataset = join_validation(hold_out_images(whole, held_out["fraction"], held_out["limit"], held_out["seed"]))
    return replace(
        command,
        dataset=dataset,
        config=replace(command.config, layers=depth, patience=0),
        about=command.about | {"held_out": held_out, "refit": True},
        overwrite=True,
        log=None,
        notes=(f"training again on all {len(dataset.train):,} images, with {count(depth, 'layer', 'layers')}",),
    )


def _chosen(
    dataset: Dataset,
    compute: ComputeOptions,
    quality: Quality,
    limit: float | None,
    asked: dict[str, Any],
    workers: Workers,
) -> Choice:
    """Return the network for the training images, which rank 0 chooses."""
    from ..network.inputs import as_images, as_labels
    from ..training.choice import choose_network, choose_on_rank0

    def choose() -> Choice:
        images, held = as_images(dataset.train.images), dataset.validation
        labels = as_labels(dataset.train.labels, images)
        validation = None if held is None else (pictures := as_images(held.images), as_labels(held.labels, pictures))
        choice = choose_network(images, labels, compute, quality, limit, asked, validation, since_start(), workers)
        check_readout_options(choice.config, asked)
        return choice

    return choose_on_rank0(workers, choose)


def _check_flags_of_resume(request: TrainRequest) -> None:
    """Raise ValueError for a flag of new runs."""
    for name, value in request.new.items():
        if value is not None and value is not False:
            raise ValueError(f"--{name.replace('_', '-')} must not be used with --resume. Leave it out.")


def _new_place(name: str) -> Path:
    """Return a folder that does not exist, named after the data set and the time."""
    first = Path("runs") / f"{name.replace(':', '-')}-{datetime.now():%Y%m%d-%H%M%S}"
    place, number = first, 1
    while place.exists():
        number += 1
        place = first.with_name(f"{first.name}-{number}")
    return place
