"""``rescnet train``: learn a model from images, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from ..config.compute import ComputeOptions
from ..config.network import NetworkConfig
from ..config.presets import make_compute
from .new_run import TrainFlags, new_run
from .shared import Source, given, with_flags

if TYPE_CHECKING:
    from .training_run import TrainCommand


@with_flags(TrainFlags, NetworkConfig, ComputeOptions)
def train(source: Source = None, **values: Any) -> None:
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

    flags = TrainFlags(**given(values, TrainFlags))
    options, machine = given(values, NetworkConfig), given(values, ComputeOptions)
    if flags.resume is not None:
        flags.check_resumable()
    with join_workers(make_compute(flags.config, **machine).device) as workers:
        log = TensorBoardLog(flags.tensorboard) if flags.tensorboard and workers.is_rank0 else None
        console = Console(stderr=flags.as_json, quiet=flags.quiet or not workers.is_rank0)
        command: TrainCommand | None
        if flags.resume is None:
            command = new_run(source or "digits", flags, options, machine, log, workers)
        else:
            command = resume_run(flags.resume, source, flags.root, options, machine, log, workers)
        if command is not None:
            command.run(console, flags.as_json)
        elif workers.is_rank0:
            say_complete(console, flags.as_json, ModelFolder.open(str(flags.resume)))
        if flags.quiet and not flags.as_json and workers.is_rank0:
            typer.echo(command.place if command else flags.resume)
