"""``rescnet compare`` and ``rescnet curve``: several models on the same images."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ..base.errors import ConfigError, DataError
from ..base.text import show_bytes
from ..config.compute import ComputeOptions
from .shared import (
    Json,
    Overwrite,
    Root,
    Source,
    check_out,
    command_line,
    given,
    plain_table,
    say,
    with_flags,
    write_json,
)

if TYPE_CHECKING:
    from ..compare.comparison import Row
    from ..data import Dataset

HELD_OUT = 0.2  # of a set without test images
USUAL = (5, 10, 20, 50, 100)  # training images per class

Models = Annotated[
    str, typer.Option(help="Models separated by commas, options after colons, e.g. rescnet:layers=5; or all.")
]
Seed = Annotated[int, typer.Option(help="Random seed of splits and models.")]
Out = Annotated[Path | None, typer.Option(help="Output file for the rows, JSON, written after every model.")]
ImageSize = Annotated[str | None, typer.Option(metavar="H,W", help="Resize the images of a folder.")]


@with_flags(ComputeOptions)
def compare(
    source: Source = None,
    models: Models = "all",
    held_out: Annotated[
        float | None,
        typer.Option(
            help=f"Measure on this share of the training images. Default: {HELD_OUT} without test images, else 0."
        ),
    ] = None,
    splits: Annotated[int, typer.Option(help="Number of random splits; accuracy is their mean.", min=1)] = 1,
    seed: Seed = 0,
    out: Out = None,
    root: Root = None,
    image_size: ImageSize = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Train several models on the same images and print accuracy, time, memory and size.

    Without arguments: ResCNet, stock baselines, and all of PCANet's family on the digits of scikit-learn. Sizes of a
    family member that do not fit the images are replaced. The options dtype and precision are for ResCNet only.
    """
    from ..compare.comparison import compare_models, parse_models, split_of

    contestants, compute = parse_models(models), ComputeOptions(**given(options, ComputeOptions))
    check_out(out, overwrite)
    data = _load(source, root, image_size)
    share = held_out if held_out is not None else 0.0 if data.test is not None else HELD_OUT
    if share == 0 and (data.test is None or splits > 1):
        raise ConfigError("--held-out must be above 0 for several splits, or without test images, got 0.")
    training, measured = split_of(data, share, seed)
    protocol = f"{share:g} of the training images held out at random" if share else "test images"
    protocol += f", mean of {splits} splits" if splits > 1 else ""
    facts = {"protocol": protocol, "train_images": len(training), **_facts(data, seed, compute)}
    console = Console(stderr=as_json)
    if models == "all":
        say(console, f"{len(contestants)} models, one after another; --models chooses some", style="dim")
    rows: list[Row] = []
    for row in compare_models(data, contestants, share, splits, seed, compute):
        rows.append(row)
        say(console, escape(_line(row)))
        if out is not None:
            write_json(out, [{**asdict(each), **facts} for each in rows])
    table = plain_table("model", "accuracy", "95 % interval", "train s", "test s", "memory", "size", gap=2)
    table.title, table.title_justify = f"{data.name}: {protocol}, {len(measured):,} images", "left"
    table.columns[0].overflow, table.columns[0].no_wrap = "fold", False
    for row in sorted((row for row in rows if row.accuracy is not None), key=lambda row: -(row.accuracy or 0)):
        spread = "" if row.deviation is None else f" ± {100 * row.deviation:.2f}"
        sizes = [show_bytes(size) for size in (row.peak_memory, row.model_bytes)]
        times = [f"{seconds:.{1 if seconds < 1000 else 0}f}" for seconds in (row.seconds, row.predict_seconds)]
        table.add_row(row.model, f"{100 * (row.accuracy or 0):.2f} %{spread}", _interval(row), *times, *sizes)
    console.print(table)
    if as_json:
        typer.echo(json.dumps([{**asdict(row), **facts} for row in rows]))


@with_flags(ComputeOptions)
def curve(
    source: Source = None,
    images_per_class: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Numbers of training images: the first n of each class. Default: those of 5,10,20,50,100 that fit.",
        ),
    ] = None,
    models: Models = "rescnet,hog-svm",
    seed: Seed = 0,
    out: Out = None,
    plot: Annotated[Path | None, typer.Option(help="Output file for a figure, .svg or .png.")] = None,
    root: Root = None,
    image_size: ImageSize = None,
    overwrite: Overwrite = False,
    **options: Any,
) -> None:
    """Measure accuracy over the number of training images per class.

    The test images are those of the set, or a fifth of the training images.
    """
    from ..compare.comparison import learning_curve, parse_models, split_of

    contestants, compute = parse_models(models), ComputeOptions(**given(options, ComputeOptions))
    check_out(out, overwrite)
    check_out(plot, overwrite, ".svg", ".png")
    if plot is not None and not find_spec("matplotlib"):
        raise ConfigError("--plot must be used with matplotlib, which is not installed. Run pip install matplotlib.")
    data = _load(source, root, image_size)
    training, test = split_of(data, 0.0 if data.test is not None else HELD_OUT, seed)
    data = replace(data, train=training, test=test)
    numbers = _usual(training.labels) if images_per_class is None else _numbers(images_per_class)
    facts, console = _facts(data, seed, compute), Console()
    points: list[dict[str, Any]] = []
    curves: dict[str, dict[int, float]] = {}
    for images, row in learning_curve(data, contestants, numbers, seed, compute):
        say(console, escape(f"{images:6,} per class  {_line(row)}"))
        points.append({"images_per_class": images, **asdict(row), **facts})
        if row.accuracy is not None:
            curves.setdefault(row.model, {})[images] = 100 * row.accuracy
        if out is not None:
            write_json(out, points)
    table = plain_table("images per class", *curves)
    for images in numbers:
        table.add_row(f"{images:,}", *(f"{each[images]:.2f}" if images in each else "–" for each in curves.values()))
    console.print(table)
    if plot is not None:
        _draw(plot, curves, f"{data.name}: test accuracy over training images")


def _load(source: str | None, root: Path | None, image_size: str | None) -> Dataset:
    from ..data.loading import check_trainable
    from .images import load_source, parse_size, say_notes

    data = load_source(source or "digits", root, parse_size(image_size))
    say_notes(data)
    check_trainable(data)
    return data


def _facts(data: Dataset, seed: int, compute: ComputeOptions) -> dict[str, Any]:
    """Return the provenance of the rows."""
    from ..model import describe_run
    from ..network.device import choose_device

    device = choose_device(compute.device)
    return {"dataset": data.name, "seed": seed, "command": command_line(), **describe_run(device)}


def _line(row: Row) -> str:
    """Return the result of a model in one line."""
    if row.accuracy is None:
        return f"{row.model:20} {row.error}"
    return f"{row.model:20} {100 * row.accuracy:6.2f} % ({_interval(row)})  {row.seconds:8.1f} s"


def _interval(row: Row) -> str:
    return "–".join(f"{100 * end:.1f}" for end in row.interval or ())


def _usual(labels: Any) -> list[int]:
    """Return the usual numbers up to that of the smallest class, or this one, from labels (n,)."""
    import numpy as np

    fewest = int(np.bincount(labels).min())
    return [images for images in USUAL if images <= fewest] or [max(2, fewest)]


def _numbers(text: str) -> list[int]:
    words = text.replace(",", " ").split()
    if not words or not all(word.isdecimal() for word in words):
        raise DataError(f"images_per_class must be whole numbers, e.g. 10,50,100, got {text!r}.")
    return sorted({int(word) for word in words})


def _draw(file: Path, curves: Mapping[str, Mapping[int, float]], title: str) -> None:
    """Draw accuracy in percent over images per class, one line per model."""
    from matplotlib.figure import Figure

    drawing = Figure((7, 4.2), layout="constrained")
    axes = drawing.add_subplot(title=title, xlabel="training images per class", ylabel="test accuracy, %")
    for model, points in curves.items():
        axes.semilogx(list(points), list(points.values()), "o-", label=model)
    ticks = sorted({images for points in curves.values() for images in points})
    axes.set_xticks(ticks, [f"{images:,}" for images in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False)
    drawing.savefig(file)
