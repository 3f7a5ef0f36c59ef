"""``rescnet compare``: table of several models on the same images."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..config.compute import ComputeOptions
from ..text import show_bytes
from .shared import Root, Source, SourceOption, check_out, given, one_source, say, with_flags, write_json

if TYPE_CHECKING:
    from ..data import Dataset
    from ..experiments.compare import Row

HELD_OUT = 0.2  # of a set without test images


@with_flags(ComputeOptions)
def compare(
    source: Source = None,
    dataset: SourceOption = None,
    models: Annotated[
        str, typer.Option(help="Models separated by commas, options after colons, e.g. rescnet:layers=5; or all.")
    ] = "all",
    baseline: Annotated[
        str | None, typer.Option(help="Add baselines to the models: svc, forest, hog-svm, cnn, resnet18.")
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            help=f"Measure on this share of the training images. Default: {HELD_OUT} without test images, else 0."
        ),
    ] = None,
    splits: Annotated[int, typer.Option(help="Number of random splits; accuracy is their mean.")] = 1,
    limit: Annotated[int | None, typer.Option(help="Use about n training images.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of splits and models.")] = 0,
    out: Annotated[Path | None, typer.Option(help="JSON file of the rows, rewritten after every model.")] = None,
    add: Annotated[bool, typer.Option("--add", help="Keep the rows of other models in that file.")] = False,
    plot: Annotated[Path | None, typer.Option(help="SVG file for a figure of the table.")] = None,
    root: Root = None,
    image_size: Annotated[str | None, typer.Option(metavar="H,W", help="Resize the images of a folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON on stdout, nothing else.")] = False,
    **options: Any,
) -> None:
    """Train several models on the same images and print accuracy, time, memory and size.

    Without arguments: ResCNet, stock baselines, and all of PCANet's family on the digits of scikit-learn. A model whose
    blocks do not fit the images is adapted, and its line says so. The options dtype and precision are for ResCNet only.
    """
    from ..data.loading import check_trainable
    from ..data.splits import hold_out_images
    from ..experiments.compare import compare_models, parse_models
    from ..experiments.presentation import NO_PLOTS, can_draw, draw_league
    from ..network.device import choose_device
    from .images import check_limit, load_source, parse_size, say_notes

    source = one_source(source, dataset)
    contestants = [*parse_models(models), *(parse_models(baseline) if baseline else [])]
    compute = ComputeOptions(**given(options, ComputeOptions))
    device = choose_device(compute.device)
    if splits < 1:
        raise ValueError(f"splits must be at least 1, got {splits}.")
    kept = rows_to_keep(out, add)
    for file in (out, plot):
        check_out(file, overwrite=True)
    whole = load_source(source or "digits", root, parse_size(image_size))
    say_notes(whole)
    check_limit(whole, limit)
    data = hold_out_images(whole, 0, limit, seed)
    check_trainable(data)
    share = held_out if held_out is not None else 0.0 if data.test is not None else HELD_OUT
    if share == 0 and (data.test is None or splits > 1):
        raise ValueError("--held-out must be above 0 for several splits, or without test images, got 0.")
    console = Console(stderr=as_json)
    facts = facts_of(data, share, splits, seed, device)
    if models == "all":
        say(console, f"{len(contestants)} models, one after another; --models chooses some", style="dim")
    rows: list[Row] = []
    for row in compare_models(data, contestants, share, splits, seed, compute):
        rows.append(row)
        result = row.error
        if row.accuracy is not None:
            result = f"{100 * row.accuracy:6.2f} % ({_interval(row)})  {row.seconds:8.1f} s"
        changed = f"  [dim]{escape(row.changed)}[/dim]" if row.changed else ""
        say(console, f"{escape(row.model):20} {escape(result)}{changed}")
        if out is not None:
            mine = [{"name": f"league-{data.name}", **asdict(each), **facts} for each in rows]
            others = [old for old in kept if old["model"] not in {each.model for each in rows}]
            write_json(out, others + mine)
    measured = len(data.train) - facts["train_images"] if share else len(data.test or ())
    console.print(_table(rows, f"{data.name}: {facts['protocol']}, {measured:,} images"))
    if plot is not None and can_draw():
        draw_league(plot, rows, f"{data.name}, {facts['device']}")
    elif plot is not None:
        say(console, escape(NO_PLOTS))
    if as_json:
        typer.echo(json.dumps([{**asdict(row), **facts} for row in rows]))


def rows_to_keep(out: Path | None, add: bool) -> list[dict[str, Any]]:
    """Return the rows in a file that are kept, none without ``add``."""
    if out is None or not add or not out.exists():
        return []
    try:
        rows = json.loads(out.read_text())
        return [row for row in rows if row["model"]]
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{out} must hold rows of rescnet compare: name another file, or omit --add.") from None


def facts_of(data: Dataset, share: float, splits: int, seed: int, device: Any) -> dict[str, Any]:
    """Return the provenance of the rows."""
    import sklearn

    from ..data.splits import stratified_split
    from ..experiments.records import origin

    protocol = "test images" if not share else f"{share:g} of the training images held out at random"
    if splits > 1:
        protocol += f", mean of {splits} splits"
    run = origin(device)
    return {
        "dataset": data.name,
        "protocol": protocol,
        "train_images": len(data.train) - (len(stratified_split(data.train.labels, share, seed)[1]) if share else 0),
        **run,
        "versions": {**run["versions"], "scikit-learn": sklearn.__version__},
        "seed": seed,
    }


def _interval(row: Row) -> str:
    return "–".join(f"{100 * end:.1f}" for end in row.interval or ())


def _table(rows: list[Row], title: str) -> Table:
    """Return the table, best first and within 80 columns; models that failed come last."""
    table = Table(title=title, caption="95 % intervals", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.title_justify = table.caption_justify = "left"
    table.add_column("model", overflow="fold")
    published = any(row.published is not None for row in rows)
    for column in ("accuracy", "interval", *["paper"] * published, "train s", "test s", "memory", "size"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in sorted(rows, key=lambda row: -(row.accuracy or 0)):
        if row.accuracy is None:
            table.add_row(row.model, "failed")
            continue
        spread = "" if row.deviation is None else f" ± {100 * row.deviation:.2f}"
        table.add_row(
            row.model,
            f"{100 * row.accuracy:.2f} %{spread}",
            _interval(row),
            *([] if not published else ["" if row.published is None else f"{100 * row.published:.2f}"]),
            *(f"{took:.{1 if took < 1000 else 0}f}" for took in (row.seconds, row.predict_seconds)),
            show_bytes(row.peak_memory),
            show_bytes(row.model_bytes),
        )
    return table
