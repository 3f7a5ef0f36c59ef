"""``rescnet train --resume``: continue a run with the images and the options it started with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape

from ..base.errors import ConfigError
from ..base.text import count
from ..config.compute import ComputeOptions
from ..config.option import check_unchanged
from ..config.presets import check_asked_options
from ..data.splits import fingerprints
from ..network.device import choose_device, choose_precision
from ..network.history import reason_to_stop
from ..saving import InterruptedRun, ModelFolder, read_run, run_from_bytes, run_to_bytes
from ..training.fitting import Wishes
from .images import dataset_of, full_name
from .shared import command_line, say
from .training_run import TrainCommand

if TYPE_CHECKING:
    from ..config.network import NetworkConfig
    from ..data import Dataset
    from ..training.tensorboard import TensorBoardLog
    from ..training.workers import Workers


def resume_run(
    place: Path,
    source: str | None,
    root: Path | None,
    options: dict[str, Any],
    compute_options: dict[str, Any],
    log: TensorBoardLog | None,
    workers: Workers,
) -> TrainCommand | None:
    """Return the rest of the run in a folder, which rank 0 reads and broadcasts; None if the run is complete.

    The source is the new place of the same images, if they were moved.
    """
    run = read_run(place) if workers.is_rank0 else None
    sent = workers.broadcast_bytes(run_to_bytes(run) if run and workers.count > 1 else b"")
    run = run or run_from_bytes(sent)
    command = None
    try:
        command = _continued(run, place, source, root, options, compute_options, workers)
    finally:
        if command is None and run.lock:
            run.lock.release()
    return None if command is None else replace(command, log=log)


def say_complete(console: Console, as_json: bool, folder: ModelFolder) -> None:
    """Print that nothing is left of a run, and how to add layers."""
    layers, stopped = len(folder.records), folder.about.get("stopped")
    say(console, f"{escape(str(folder.path))} is complete: {count(layers, 'layer', 'layers')}; {stopped}.")
    say(console, f"To add layers, use for example --layers {2 * layers}.", style="dim")
    if as_json:
        typer.echo(json.dumps({"model": str(folder.path), "layers": layers, "stopped": stopped}))


def _continued(
    run: InterruptedRun,
    place: Path,
    source: str | None,
    root: Path | None,
    asked: dict[str, Any],
    compute_options: dict[str, Any],
    workers: Workers,
) -> TrainCommand | None:
    """Return the rest of a run, None if nothing is left, or raise ValueError if it cannot continue as requested."""
    about = run.folder.about
    if "fingerprints" not in about:
        raise ConfigError(
            f"{place} must be saved by rescnet train to be resumed: it does not record its training images. Continue "
            "it in Python with start of rescnet.train."
        )
    config = _merged(run.folder.config, asked, place)
    check_asked_options(config, asked)
    if config.layers < len(run.layers):
        raise ConfigError(
            f"layers must be at least {len(run.layers)}, the layers of {place}, got {config.layers}. To use fewer, "
            f"give --layers {config.layers} to evaluate, predict, export or report."
        )
    if config.layers > len(run.layers) and "layers" in asked:
        _check_not_stopped(config, run)
    whole = run.folder.sealed and not run.damaged and not run.folder.misses_readout
    if whole and config == run.folder.config and reason_to_stop(config, run.folder.history()):
        return None
    compute = _merged(ComputeOptions(**about.get("compute", {})), compute_options, place)
    device = choose_device(compute.device) if workers.count == 1 else workers.device
    if (choose_precision(compute, device) != "exact") != run.folder.half:
        before, now = ("half", "full") if run.folder.half else ("full", "half")
        raise ConfigError(f"precision must stay {before}, but {device} computes in {now}. Resume on another device.")
    folder = run.folder
    if source is not None:
        folder = replace(folder, about=about | {"source": full_name(source)})
    dataset, _ = workers.first_alone(lambda: dataset_of(folder, None, root))
    _check_images(dataset, run)
    changed = config != run.folder.config
    return TrainCommand(
        dataset=dataset,
        wishes=Wishes(config=config),
        compute=compute,
        device=str(device),
        place=place,
        about={"command": f"{about['command']} && {command_line()}"} if changed and about.get("command") else {},
        resumed=run,
        notes=tuple(_notes(run, compute)),
        workers=workers,
    )


def _notes(run: InterruptedRun, compute: ComputeOptions) -> list[str]:
    """Return a line about the layer where the run continues, and one if its sums will be rounded differently."""
    done = len(run.layers)
    damaged = f"; {run.damaged} is damaged, so layer {done + 1} is learned again" if run.damaged else ""
    notes = [f"continuing after layer {done} of {run.folder.path}{damaged}"]
    before = ComputeOptions(**run.folder.about.get("compute", {}))
    changed = [name for name in ("device", "max_memory", "maps") if getattr(before, name) != getattr(compute, name)]
    if changed:
        notes.append(
            f"with another {' and '.join(changed)} sums are added in another order: the network equals that of an "
            "uninterrupted run up to rounding, not bit for bit"
        )
    return notes


def _merged(before: Any, changes: dict[str, Any], place: Path) -> Any:
    """Return the options of a resumed run; those that would make it another network must not change."""
    options = replace(before, **changes)
    check_unchanged(before, options, ("layers", "run"), f"Leave the option out to resume {place}.")
    return options


def _check_not_stopped(config: NetworkConfig, run: InterruptedRun) -> None:
    """Raise ValueError if a stopping rule of the run prevents the layers that were asked for."""
    history = run.folder.history()
    reason = reason_to_stop(config, history)
    if not reason:
        return
    remedies = []
    if reason_to_stop(replace(config, patience=0), history):
        remedies.append("--no-stop-at-zero-error")
    if reason_to_stop(replace(config, stop_at_zero_error=False), history):
        remedies.append(f"--patience 0 or more than {history.layers_since_best()}")
    raise ConfigError(
        f"{run.folder.path} stopped after {count(len(history), 'layer', 'layers')} because {reason}, so no layer would "
        f"be added. Add {' and '.join(remedies)}."
    )


def _check_images(dataset: Dataset, run: InterruptedRun) -> None:
    """Raise ValueError if the images are not those that the run started with."""
    expected, found = run.folder.about.get("fingerprints") or {}, fingerprints(dataset)
    if expected != found:
        changed = next((name for name in found if expected.get(name) != found[name]), "some")
        raise ConfigError(
            f"the {changed} images of {dataset.name} must be those that {run.folder.path} started with. Restore them, "
            "or start a new run."
        )
