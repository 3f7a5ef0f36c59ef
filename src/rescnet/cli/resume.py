"""``rescnet train --resume``: a run is taken up where it was left, with the images and the options it began with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from ..config.compute import ComputeOptions
from ..config.option import check_unchanged
from ..config.presets import check_readout_options

if TYPE_CHECKING:
    from ..config.network import NetworkConfig
    from ..data import Dataset
    from ..model_files import InterruptedRun
    from ..training.distributed.workers import Workers
    from ..training.listeners.tensorboard import TensorBoardLog
    from .training_run import TrainingRun


def take_up(
    place: Path,
    source: str | None,
    root: Path | None,
    options: dict[str, Any],
    compute_options: dict[str, Any],
    log: TensorBoardLog | None,
    workers: Workers,
) -> TrainingRun:
    """Return the rest of a run.

    Parameters
    ----------
    place : Path
        Its folder.
    source : str, optional
        Where the images are now, if not where they were; they must be the same.
    root : Path, optional
        Folder of the public sets.
    options, compute_options : dict
        What was said on the command line.
    workers : Workers
        The first reads the run, and sends it to the others.
    """
    from ..model_files import read_run, run_from_bytes, run_to_bytes
    from ..network.device import choose_device, choose_precision
    from .sources import dataset_of, full_name
    from .training_run import TrainingRun

    run = read_run(place) if workers.is_rank0 else None
    sent = workers.broadcast_bytes(run_to_bytes(run) if run and workers.count > 1 else b"")
    run = run or run_from_bytes(sent)
    about = run.folder.about
    if "fingerprints" not in about:
        raise ValueError(
            f"{place} was saved from Python and does not say which images it learnt from: go on in Python (start of "
            "rescnet.train, warm_start of the classifier), or start a new run."
        )
    if about.get("half_heads"):
        raise ValueError(f"{place} has heads rounded to half precision, from which no run goes on: train anew.")
    config = _agreed(run.folder.config, options, place)
    check_readout_options(config, options)
    if config.layers < len(run.layers):
        raise ValueError(
            f"{place} has {len(run.layers)} layers already, more than {config.layers}: ask for more of them, or use "
            f"the first ones with --layers {config.layers} of evaluate, predict, export or report."
        )
    if config.layers > len(run.layers) and "layers" in options:
        _check_goes_on(config, run)
    compute = _agreed(ComputeOptions(**about.get("compute", {})), compute_options, place)
    device = choose_device(compute.device) if workers.count == 1 else workers.device
    if (choose_precision(compute, device) != "exact") != run.folder.half:
        there, here = ("half", "full") if run.folder.half else ("full", "half")
        raise ValueError(
            f"{place} was computed in {there} precision, {device} computes in {here}: resume it elsewhere."
        )
    folder = run.folder if source is None else replace(run.folder, about=about | {"source": full_name(source)})
    dataset, _ = dataset_of(folder, None, root)
    _check_images(dataset, run)
    return TrainingRun(
        dataset=dataset,
        config=config,
        compute=compute,
        device=str(device),
        place=place,
        about=_commands(about, config != run.folder.config),
        log=log,
        resumed=run,
        workers=workers,
    )


def _commands(about: dict[str, Any], other_options: bool) -> dict[str, Any]:
    """Return what made the network, if it takes this command too: one that only goes on adds nothing."""
    from ..experiments.provenance import command_line

    before = about.get("command")
    return {"command": f"{before} && {command_line()}"} if before and other_options else {}


def say_taken_up(run: InterruptedRun, compute: ComputeOptions, console: Console) -> None:
    """Tell what was found, and what it costs to go on elsewhere."""
    count = len(run.layers)
    torn = f"; {escape(run.damaged)} is damaged, so that layer {count + 1} is learnt again" if run.damaged else ""
    console.print(
        f"going on after layer {count} of {escape(str(run.folder.path))}{torn}", highlight=False, soft_wrap=True
    )
    before = ComputeOptions(**run.folder.about.get("compute", {}))
    changed = [name for name in ("device", "memory", "maps") if getattr(before, name) != getattr(compute, name)]
    if changed:
        console.print(
            f"with another {' and '.join(changed)} sums are added in another order: from here on the network is "
            "that of an uninterrupted run to rounding, not bit for bit",
            highlight=False,
            soft_wrap=True,
        )


def _agreed(begun: Any, wanted: dict[str, Any], place: Path) -> Any:
    """Return the options that a resumed run has; those that would make it another network must not change."""
    options = replace(begun, **wanted)
    check_unchanged(begun, options, ("layers", "run"), f"{place} began so: leave the option out, or start a new run.")
    return options


def _check_goes_on(config: NetworkConfig, run: InterruptedRun) -> None:
    """Refuse to leave more layers unlearnt in silence, where the run's own rules have ended it."""
    from ..formatting import count
    from ..network.depth import reason_to_stop

    history = run.folder.history()
    reason = reason_to_stop(config, history)
    if not reason:
        return
    remedies = []
    if reason_to_stop(replace(config, patience=0), history):
        remedies.append("--no-stop-at-zero-error")
    if reason_to_stop(replace(config, stop_at_zero_error=False), history):
        remedies.append(f"--patience 0, or more than {history.layers_since_best()}")
    raise ValueError(
        f"{run.folder.path} ended after {count(len(history), 'layer', 'layers')} because {reason}, so that none would "
        f"be added: also say {' and '.join(remedies)}."
    )


def _check_images(dataset: Dataset, run: InterruptedRun) -> None:
    from ..data.splits import fingerprints

    expected, found = run.folder.about.get("fingerprints"), fingerprints(dataset)
    if expected != found:
        changed = next((name for name in found if (expected or {}).get(name) != found[name]), "some")
        raise ValueError(
            f"the {changed} images of {dataset.name} are not those {run.folder.path} was begun with: bring those back, "
            "or start a new run."
        )
