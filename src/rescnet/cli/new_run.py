"""A new run of ``rescnet train``: its images, its wishes, and the facts about it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.choices import Config
from ..config.defaults import check_quality
from ..config.presets import PAPER, make_compute
from ..text import parse_seconds
from .clock import STARTED
from .shared import command_line

if TYPE_CHECKING:
    import torch

    from ..config.compute import ComputeOptions
    from ..data import Dataset
    from ..training.fitting import Wishes
    from ..training.tensorboard import TensorBoardLog
    from ..training.workers import Workers
    from .training_run import TrainCommand


@dataclass(frozen=True, kw_only=True)
class NewRunFlags:
    """Flags of ``rescnet train`` that a resumed run must not have."""

    preset: str | None
    quality: str | None
    time_limit: str | None
    config: Path | None
    out: Path | None
    overwrite: bool
    image_size: str | None
    strict: bool
    validation_fraction: float | None
    refit: bool
    limit: int | None

    def used(self) -> list[str]:
        """Return the names of the flags that were given."""
        return [entry.name for entry in fields(self) if getattr(self, entry.name) not in (None, False)]


def new_run(
    source: str,
    root: Path | None,
    options: dict[str, Any],
    compute_options: dict[str, Any],
    flags: NewRunFlags,
    log: TensorBoardLog | None,
    workers: Workers,
) -> TrainCommand:
    """Return a new run; all its options are checked before its images are read."""
    from ..data.splits import hold_out_images
    from ..network.device import choose_device
    from ..saving import check_place
    from ..training.fitting import Wishes
    from .images import fit_facts, full_name
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
    whole = _images(source, root, wishes, flags, compute, device, workers)
    dataset = hold_out_images(whole, 0.0, flags.limit, config.options.get("seed", 0))
    about = {
        "dataset": dataset.name,
        "source": full_name(source),
        "root": str(root.resolve()) if root else None,
        **fit_facts(source, dataset),
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
    root: Path | None,
    wishes: Wishes,
    flags: NewRunFlags,
    compute: ComputeOptions,
    device: torch.device,
    workers: Workers,
) -> Dataset:
    """Return all images of a new run; a size that does not fit the network or the memory is refused before."""
    from ..data.loading import check_size, check_trainable
    from ..training.memory_plan import check_size_fits
    from .images import check_limit, load_source, parse_size

    size = parse_size(flags.image_size)
    if size is not None:
        check_size(source, size)
        assert isinstance(wishes.config, Config)
        smallest = wishes.config.complete((1, *size), classes=2, images=2, quality=wishes.quality)
        check_size_fits(smallest, size, compute, device)
    whole = workers.first_alone(lambda: load_source(source, root, size, strict=flags.strict))
    check_trainable(whole)
    check_limit(whole, flags.limit)
    return whole


def _new_place(name: str) -> Path:
    """Return a folder that does not exist, named after the data set and the time."""
    first = Path("runs") / f"{name.replace(':', '-')}-{datetime.now():%Y%m%d-%H%M%S}"
    place, number = first, 1
    while place.exists():
        number += 1
        place = first.with_name(f"{first.name}-{number}")
    return place
