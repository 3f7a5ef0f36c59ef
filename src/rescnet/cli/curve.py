"""``rescnet curve``: accuracy over the number of training images, ours beside a baseline."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ..config.compute import ComputeOptions
from .compare import facts_of, rows_to_keep
from .shared import Root, Source, check_out, given, plain_table, say, with_flags, write_json

USUAL = (5, 10, 20, 50, 100)  # training images per class


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
    models: Annotated[
        str, typer.Option(help="Models separated by commas, options after colons, e.g. rescnet:layers=5.")
    ] = "rescnet,resnet18",
    seed: Annotated[int, typer.Option(help="Random seed of the models.")] = 0,
    out: Annotated[Path | None, typer.Option(help="JSON file of the points, rewritten after every point.")] = None,
    add: Annotated[
        bool, typer.Option("--add", help="Keep the points in that file, and measure only those that it lacks.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="SVG or PNG file for the figure.")] = None,
    root: Root = None,
    image_size: Annotated[str | None, typer.Option(metavar="H,W", help="Resize the images of a folder.")] = None,
    **options: Any,
) -> None:
    """Measure accuracy over the number of training images per class, and say where two models cross.

    The test images are those of the set, or a fifth of the training images. Points of several seeds are averaged.
    """
    from ..data.loading import check_trainable
    from ..experiments.compare import parse_models
    from ..experiments.curve import curves_of, describe_crossing, learning_curve, with_test_images
    from ..experiments.presentation import NO_PLOTS, can_draw, draw_learning_curve
    from ..network.device import choose_device
    from .images import load_source, parse_size

    contestants = parse_models(models)
    compute = ComputeOptions(**given(options, ComputeOptions))
    device, console = choose_device(compute.device), Console()
    points = rows_to_keep(out, add)
    for file in (out, plot):
        check_out(file, overwrite=True)
    dataset = with_test_images(load_source(source or "digits", root, parse_size(image_size)), seed)
    check_trainable(dataset)
    done = {(point["model"], point.get("images_per_class"), point.get("seed")) for point in points if point["accuracy"]}
    counts = [
        images
        for images in (_fitting(dataset.train.labels) if images_per_class is None else _numbers(images_per_class))
        if not all((contestant.label, images, seed) in done for contestant in contestants)
    ]
    for images, part, row in learning_curve(dataset, contestants, counts, seed, compute):
        result = f"{100 * row.accuracy:6.2f} %  {row.seconds:8.1f} s" if row.accuracy is not None else row.error
        say(console, f"{images:6,} per class  {escape(f'{row.model:20} {result}')}  [dim]{escape(row.changed)}[/dim]")
        key = {"model": row.model, "images_per_class": images, "seed": seed}
        points = [point for point in points if {name: point.get(name) for name in key} != key]
        points.append({"name": f"curve-{dataset.name}", **asdict(row), **facts_of(part, 0, 1, seed, device), **key})
        if out is not None:
            write_json(out, points)
    curves = curves_of(points)
    table = plain_table("images per class", *curves)
    for images in sorted({images for each in curves.values() for images in each}):
        shares = [f"{100 * each[images]:.2f}" if images in each else "–" for each in curves.values()]
        table.add_row(f"{images:,}", *shares)
    console.print(table)
    if plot is not None and can_draw():
        draw_learning_curve(plot, curves, f"{dataset.name}: test accuracy over training images")
    elif plot is not None:
        say(console, escape(NO_PLOTS))
    for other in contestants[1:]:
        say(console, escape(describe_crossing(curves, contestants[0].label, other.label)))


def _fitting(labels: Any) -> list[int]:
    """Return the usual numbers up to that of the smallest class, or this one, from labels (n,)."""
    import numpy as np

    fewest = int(np.bincount(labels).min())
    return [images for images in USUAL if images <= fewest] or [max(2, fewest)]


def _numbers(text: str) -> list[int]:
    words = text.replace(",", " ").split()
    if not words or not all(word.isdecimal() for word in words):
        raise ValueError(f"images_per_class must be whole numbers, e.g. 10,50,100, got {text!r}.")
    return sorted({int(word) for word in words})
