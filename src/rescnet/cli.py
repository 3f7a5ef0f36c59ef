"""The command line, thin: parse, call, print."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from .config import ComputeOptions, NetworkConfig, make_config, preset_names
from .flags import given, with_flags

BAD_INPUT, INTERRUPTED = 2, 130

app = typer.Typer(
    name="rescnet",
    help="Deep image classifiers trained without back-propagation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def rescnet() -> None:
    """Deep image classifiers trained without back-propagation."""


@app.command()
@with_flags(NetworkConfig, ComputeOptions)
def train(
    source: Annotated[
        str, typer.Argument(help="a public set (digits, mnist, cifar10, …), an image folder or an .npz file")
    ] = "digits",
    preset: Annotated[
        str | None, typer.Option(help=f"settings to start from: {', '.join(preset_names())}; default: the set's own")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of options that override the preset's")] = None,
    root: Annotated[Path | None, typer.Option(help="folder of the public sets")] = None,
    validation_fraction: Annotated[float, typer.Option(help="share of training images held out")] = 0.2,
    limit: Annotated[int | None, typer.Option(help="use only so many training images")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the history as JSON lines, nothing else")] = False,
    **options: Any,
) -> None:
    """Train a network; every option of the configuration is a flag.

    Without an argument: the digits inside scikit-learn, a fifth of them held out.
    """
    from .data import load
    from .holdout import hold_out
    from .progress import TrainingTable
    from .training.trainer import choose_device
    from .training.trainer import train as train_network

    if preset is None:
        preset = source if source in preset_names() else None
    network_config = make_config(preset, config, **given(options, NetworkConfig))
    compute = ComputeOptions(**given(options, ComputeOptions))
    device = choose_device(compute.device)
    dataset = load(source, root)
    images, labels = dataset.train.images, dataset.train.labels
    if limit is not None and limit < len(labels):
        _, chosen = hold_out(labels, limit / len(labels), network_config.seed)
        images, labels = images[chosen], labels[chosen]
    test = (dataset.test.images, dataset.test.labels) if dataset.test else None
    validation = (dataset.validation.images, dataset.validation.labels) if dataset.validation else None
    if validation is None and validation_fraction:
        kept, held = hold_out(labels, validation_fraction, network_config.seed)
        validation = images[held], labels[held]
        images, labels = images[kept], labels[kept]
    console = Console(stderr=as_json)
    with TrainingTable(console, dataset.name, str(device)) as table:
        _, history = train_network(
            images, labels, network_config, validation=validation, test=test, compute=compute, listener=table
        )
        table.finished(history)
    if as_json:
        for record in history:
            typer.echo(json.dumps(asdict(record)))


def main() -> None:
    """Run the command line; refuse bad input in one sentence."""
    try:
        app()
    except (ValueError, FloatingPointError, FileNotFoundError) as error:
        Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted", highlight=False)
        sys.exit(INTERRUPTED)
