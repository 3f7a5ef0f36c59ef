"""``rescnet datasets``: list of the public data sets, and download of one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.markup import escape

from ..base.text import show_bytes, show_shape
from .shared import Json, Root, plain_table, progress_bar, say

if TYPE_CHECKING:
    from ..data import DatasetRow


def datasets(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Data set to fetch and describe. Default: list all.")
    ] = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """List the public data sets, and whether each is on this machine; or fetch one of them and describe it."""
    from ..data import default_root, describe

    place = default_root() if root is None else root.expanduser()
    if name is not None:
        _fetch(name, place)
    rows = [row for row in describe(place) if name in (None, row.name)]
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row._asdict() | {"folder": str(row.folder) if row.folder else None}))
    elif name is None:
        _print_all(Console(), rows, place)
    else:
        _print_one(Console(), rows[0])


def _fetch(name: str, place: Path) -> None:
    """Download a public data set that is not here."""
    from ..data.fetch import fetch
    from ..data.loading import public_set_named

    public_set = public_set_named(name)
    if public_set.layouts:
        with progress_bar(f"downloading {name}") as show:
            fetch(public_set, place, progress=show)


def _print_all(console: Console, rows: list[DatasetRow], place: Path) -> None:
    table = plain_table("data set", "classes", "image", "train", "test", "size", gap=2)
    table.add_column("from", overflow="fold")
    for row in rows:
        host = urlsplit(row.page).netloc.removeprefix("www.")
        table.add_row(row.name, *_numbers(row), "[green]here[/green]" if row.present else f"[dim]{host}[/dim]")
    console.print(table)
    say(
        console,
        f"\nFolder of the public data sets: {escape(str(place))}. `train` downloads a set that is not here. It also "
        "takes image folders, .npz files, and cifar10:50, the first 50 training images of each class.",
        style="dim",
    )


def _numbers(row: DatasetRow) -> tuple[str, ...]:
    """Return classes, shape of an image, training images, test images and size of the download."""
    size = "–" if row.folder is None else "unknown" if row.download_bytes is None else show_bytes(row.download_bytes)
    tests = f"{row.n_test:,}" if row.n_test else "–"
    return str(row.classes), show_shape(row.image_shape), f"{row.n_train:,}", tests, size


def _print_one(console: Console, row: DatasetRow) -> None:
    from ..data.archives import PUBLIC_SETS

    classes, shape, training, tests, _ = _numbers(row)
    images = f"{training} training images" + (f", {tests} test images" if row.n_test else "")
    say(console, f"[bold]{row.name}[/bold]: {classes} classes, {shape}, {images}")
    say(console, f"folder: {escape(str(row.folder or 'part of scikit-learn'))}")
    say(console, f"authors: {row.page}")
    for remote in PUBLIC_SETS[row.name].downloads:
        say(console, f"file: {remote.url}, MD5 {remote.md5}")
