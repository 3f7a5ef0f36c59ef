"""``rescnet datasets``: a list of the public data sets."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .shared_options import Json, Root


def datasets(root: Root = None, as_json: Json = False) -> None:
    """List the public data sets, and whether each is on this machine."""
    from ..data import default_root, describe

    place = default_root() if root is None else root.expanduser()
    rows = describe(place)
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row._asdict() | {"folder": str(row.folder) if row.folder else None}))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("data set", "classes", "image", "training", "test"):
        table.add_column(title, justify="left" if title in ("data set", "image") else "right", no_wrap=True)
    table.add_column("folder", overflow="fold")
    for row in rows:
        channels, height, width = row.image_shape
        where = "part of scikit-learn" if row.folder is None else escape(str(row.folder.relative_to(place)))
        if not row.present:
            where = "[dim]not downloaded; `train` does it[/dim]"
        table.add_row(
            row.name,
            str(row.classes),
            f"{height}×{width}×{channels}",
            f"{row.n_train:,}",
            f"{row.n_test:,}" if row.n_test else "–",
            where,
        )
    console = Console()
    console.print(table)
    console.print(
        f"\nFolder of the public data sets: {escape(str(place))}. `train` also takes image folders and .npz files.",
        style="dim",
        highlight=False,
        soft_wrap=True,
    )
