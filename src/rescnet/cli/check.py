"""``rescnet check``: classes, sizes and problems of an image folder, without training."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ..base.errors import ConfigError, show_text
from ..base.text import count
from .shared import Json, plain_table, progress_bar, say

if TYPE_CHECKING:
    from ..data import Dataset
    from ..data.image_folder import FolderScan

MOST_CLASSES = 20  # printed; --json has all


def check(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder with one sub-folder of images per class.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if there is any problem, like train --strict.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the problems of an image folder, and the size that training would use.

    It reads every image once. Exit code 1 means that training is impossible, or that --strict refuses the folder.
    """
    from ..data.image_folder import scan_folder
    from ..data.loading import check_trainable

    if not folder.is_dir():
        remedy = "rescnet train checks other sources" if folder.exists() else "Check the path"
        raise ConfigError(f"folder must be a folder of images, got {folder}. {remedy}.")
    dataset, obstacle = None, ""
    with progress_bar("reading headers") as show:
        scan = scan_folder(folder, show)
    try:
        with progress_bar("reading images") as show:
            dataset = scan.read(progress=show)
        check_trainable(dataset)
    except ValueError as error:
        obstacle = str(error)
    if as_json:
        typer.echo(json.dumps(_facts(scan, dataset, obstacle)))
    else:
        _print(Console(), scan, dataset, obstacle)
    refused = strict and bool(scan.problems)
    if refused and not as_json:
        say(Console(), "[red]--strict refuses this folder[/red]")
    if obstacle or refused:
        raise typer.Exit(1)


def _counts(scan: FolderScan) -> dict[str, Counter[str]]:
    """Return the number of images of each class, per split."""
    counts: dict[str, Counter[str]] = {}
    for file in scan.files.values():
        counts.setdefault(file.class_name, Counter())[file.split] += 1
    return counts


def _facts(scan: FolderScan, dataset: Dataset | None, obstacle: str) -> dict[str, Any]:
    return {
        "folder": str(scan.folder),
        "classes": _counts(scan),
        "sizes": [{"height": h, "width": w, "images": n} for (h, w), n in scan.sizes.most_common()],
        "grey": scan.grey,
        "colour": len(scan.files) - scan.grey,
        "problems": [
            {"kind": problem.kind.value[0], "path": str(problem.path), "reason": problem.reason}
            for problem in scan.problems
        ],
        "image_shape": dataset.shape if dataset else None,
        "obstacle": obstacle or None,
    }


def _print(console: Console, scan: FolderScan, dataset: Dataset | None, obstacle: str) -> None:
    from ..data.image_sizes import describe_sizes

    counts = _counts(scan)
    classes, images = count(len(counts), "class", "classes"), count(len(scan.files), "image", "images")
    say(console, f"[bold]{escape(show_text(scan.folder.resolve().name))}[/bold]: {classes}, {images}")
    if scan.files:
        table = plain_table("class", *scan.parts)
        for name, of_split in list(counts.items())[:MOST_CLASSES]:
            table.add_row(escape(show_text(name)), *(f"{of_split[split]:,}" for split in scan.parts))
        if len(counts) > MOST_CLASSES:
            table.add_row(f"… and {len(counts) - MOST_CLASSES:,} more")
        console.print(table)
        say(console, f"sizes (height×width): {describe_sizes(scan.sizes)}")
        say(console, f"colour: {len(scan.files) - scan.grey:,} in colour, {scan.grey:,} grey")
    lines = scan.lines()
    if lines or not obstacle:
        say(console, "problems:" if lines else "problems: none")
    for line in lines:
        say(console, f"  {escape(line)}")
    if obstacle:
        say(console, f"[red]training is impossible:[/red] {escape(obstacle)}")
    elif dataset is not None:
        channels, height, width = dataset.shape
        what = f"{height}×{width} images in {'grey' if channels == 1 else 'colour'}"
        say(console, f"training would use {what}; train --image-size chooses another size")
