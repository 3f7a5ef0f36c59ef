"""A new run of ``rescnet train``: its images, its network, and the facts about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.compute import ComputeOptions
from ..config.defaults import Quality, quality_beside
from ..config.network import NetworkConfig
from ..config.presets import PAPER, check_asked_options, make_compute, make_config, options_in_file
from ..text import count, parse_seconds, show_seconds
from .clock import since_start
from .shared import command_line

if TYPE_CHECKING:
    import torch

    from ..data import Dataset
    from ..training.choice import Choice
    from ..training.distributed.workers import Workers
    from ..training.listeners import TensorBoardLog
    from .train import TrainRequest
    from .training_run import TrainCommand

VALIDATION_FRACTION = 0.2


def new_run(request: TrainRequest, log: TensorBoardLog | None, workers: Workers) -> tuple[TrainCommand, Dataset]:
    """Return a new run and all images; all its options are checked before any work starts."""
    from ..data.splits import fingerprint, hold_out_images
    from ..network.device import choose_device
    from ..saving import check_place
    from .images import fit_facts, full_name
    from .training_run import TrainCommand

    new, source, preset = request.new, request.source or "digits", request.new["preset"]
    limit = None if new["time_limit"] is None else parse_seconds(new["time_limit"])
    quality = quality_beside(preset, new["quality"])
    # A preset needs no images: its errors come before a download.
    config = make_config(preset, new["config"], **request.options) if preset not in (None, PAPER) else None
    compute = make_compute(new["config"], **request.compute_options)
    device = choose_device(compute.device) if workers.count == 1 else workers.device
    if new["out"] is not None:
        check_place(new["out"], new["overwrite"])
    whole = _images(request, source, config, compute, device, workers)
    if preset == PAPER:
        classes = len(whole.class_names)
        config = make_config(PAPER, new["config"], image_shape=whole.shape, classes=classes, **request.options)
    asked = options_in_file(new["config"]) | request.options
    held_out = _held_out(new, config, asked)
    dataset = hold_out_images(whole, **held_out)
    notes: tuple[str, ...] = ()
    if config is None:
        choice = _chosen(dataset, compute, quality, limit, asked, workers)
        config = choice.config
        notes = (*choice.notes, f"choice of the network: {show_seconds(choice.seconds)}") if choice.notes else ()
    limit = None if limit is None else max(1.0, limit - since_start())
    if new["refit"] and (dataset.validation is None or limit is not None):
        raise ValueError(
            "refit must be used with validation images and without a time limit. Set a validation fraction or patience."
        )
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


def _images(
    request: TrainRequest,
    source: str,
    config: NetworkConfig | None,
    compute: ComputeOptions,
    device: torch.device,
    workers: Workers,
) -> Dataset:
    """Return all images of a new run; a size that does not fit the network or the memory is refused before."""
    from ..data.loading import check_size, check_trainable
    from ..training.memory_plan import check_size_fits
    from .images import check_limit, load_source, parse_size

    new = request.new
    if size := parse_size(new["image_size"]):
        check_size(source, size)
        few: Any = {"image_shape": (1, *size), "classes": 2, "images": 2, "quality": new["quality"]}
        built = config or make_config(new["preset"], new["config"], **few, **request.options)
        check_size_fits(built, size, compute, device)
    whole = workers.first_alone(
        lambda: load_source(source, request.root, size, strict=new["strict"], cache=new["cache"])
    )
    check_trainable(whole)
    check_limit(whole, new["limit"])
    return whole


def _held_out(new: dict[str, Any], config: NetworkConfig | None, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the fraction, the limit and the seed of the images held out; without a configuration, as ``asked``."""
    fraction = new["validation_fraction"]
    if fraction is None and (config is not None or asked.get("patience")):
        fraction = VALIDATION_FRACTION
    seed = config.seed if config else asked.get("seed", 0)
    return {"fraction": fraction or 0.0, "limit": new["limit"], "seed": seed}


def refitted(command: TrainCommand, whole: Dataset) -> TrainCommand:
    """Return the run on all images, with the depth of a finished run, whose model it replaces when it is complete."""
    from ..data.splits import hold_out_images, join_validation
    from ..saving import ModelFolder

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
        check_asked_options(choice.config, asked)
        return choice

    return choose_on_rank0(workers, choose)


def _new_place(name: str) -> Path:
    """Return a folder that does not exist, named after the data set and the time."""
    first = Path("runs") / f"{name.replace(':', '-')}-{datetime.now():%Y%m%d-%H%M%S}"
    place, number = first, 1
    while place.exists():
        number += 1
        place = first.with_name(f"{first.name}-{number}")
    return place
