"""``rescnet predict``: the most probable classes of image files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..base.files import atomic_write
from ..base.text import count
from .shared import Device, Layers, Model, Overwrite, Views, check_out, say

if TYPE_CHECKING:
    from torch import Tensor

    from ..base.errors import DataError

TOP = 3
MOST_ERRORS = 10


def predict(
    model: Model,
    paths: Annotated[list[Path], typer.Argument(metavar="PATHS...", help="Image files, or folders of them.")],
    layers: Layers = None,
    views: Views = None,
    out: Annotated[Path | None, typer.Option(help="Output file for the predictions, .csv or .json.")] = None,
    overwrite: Overwrite = False,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, one per image.")] = False,
) -> None:
    """Print the three most probable classes of each image file.

    Images become grey or colour like the training images of the model. Images of another size are resized and cropped
    around their centre. Missing and unreadable files are listed at the end; the exit code is then 1.

    Probabilities are calibrated if the model has the readout "kernel". Without it they are scores, and too high
    after training on few images.
    """
    import torch

    from ..data.file_inputs import read_like
    from ..network.device import choose_device
    from ..saving import ModelFolder, load_model
    from .images import BATCH, outputs_of

    check_out(out, overwrite, ".csv", ".json")
    chosen_device = choose_device(device)
    folder = ModelFolder.open(model)
    files, errors = _find_files(paths)
    console = Console(stderr=True)
    if "fit" not in folder.about:
        _say_fitted(console, files, folder.image_shape)
    loaded = load_model(model, layers, chosen_device)
    network = loaded.network.averaged_over(views)
    parts = (
        read_like(files[start : start + BATCH], folder.image_shape, loaded.preprocessing, errors)
        for start in range(0, len(files), BATCH)
    )
    outputs = list(outputs_of(network, (part for part in parts if len(part)), len(files)))
    if not outputs:
        raise next(iter(errors.values()))
    shares = network.probabilities(torch.cat(outputs))
    rows = list(_most_probable([file for file in files if file not in errors], shares, folder.class_names))
    if out is not None:
        _write(out, rows)
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
    else:
        _print(rows, out)
    if errors:
        say(console, f"\n[red]{count(len(errors), 'path', 'paths')} without a prediction:[/red]")
        for error in list(errors.values())[:MOST_ERRORS]:
            say(console, escape(f"  {error}"))
        if len(errors) > MOST_ERRORS:
            say(console, f"  … and {len(errors) - MOST_ERRORS:,} more")
        raise typer.Exit(1)


def _find_files(paths: Sequence[Path]) -> tuple[list[Path], dict[Path, DataError]]:
    """Return the named files and the image files in the named folders, and the errors of paths without one."""
    from ..base.errors import DataError
    from ..data.file_inputs import listed_files

    files: dict[Path, None] = {}  # in order
    errors: dict[Path, DataError] = {}
    for path in paths:
        try:
            files |= dict.fromkeys(listed_files(path) or ())
        except DataError as error:
            errors[path] = error
    return list(files), errors


def _say_fitted(console: Console, files: Sequence[Path], image_shape: tuple[int, int, int]) -> None:
    """Print the number of images that have not the size (channels, h, w) of the model."""
    from ..data.image_files import ImageHeader, read_headers

    _, h, w = image_shape
    headers = [header for header in read_headers(files) if isinstance(header, ImageHeader)]
    fitted = sum((header.height, header.width) != (h, w) for header in headers)
    if fitted:
        many = count(fitted, "image is", "images are")
        say(console, f"{many} resized and centre-cropped to {h}×{w} (height×width) for this model", style="dim")


def _most_probable(files: Sequence[Path], shares: Tensor, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield each file with its most probable classes, in descending order."""
    top = shares.topk(min(TOP, len(names)), dim=1)
    for file, indices, values in zip(files, top.indices.tolist(), top.values.tolist(), strict=True):
        classes = [{"class": names[index], "probability": value} for index, value in zip(indices, values, strict=True)]
        yield {"file": str(file), "classes": classes}


def _print(rows: Sequence[dict[str, Any]], out: Path | None) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("image", overflow="fold")
    for title in ("first", "second", "third")[: len(rows[0]["classes"])]:
        table.add_column(title)
    for row in rows:
        cells = [f"{escape(entry['class'])} [dim]{100 * entry['probability']:.1f} %[/dim]" for entry in row["classes"]]
        table.add_row(escape(row["file"]), f"[bold]{cells[0]}[/bold]", *cells[1:])
    console = Console()
    console.print(table)
    if out is not None:
        written = count(len(rows), "prediction", "predictions")
        say(console, f"\n{written} written to {escape(str(out))}")


def _write(out: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write all predictions as CSV or JSON."""
    with atomic_write(out) as path, path.open("w", encoding="utf-8", newline="") as stream:
        if out.suffix.lower() == ".json":
            stream.write(json.dumps(rows, indent=1) + "\n")
            return
        writer = csv.writer(stream, lineterminator="\n")
        ranks = range(1, len(rows[0]["classes"]) + 1)
        writer.writerow(["file", *(title for rank in ranks for title in (f"class_{rank}", f"probability_{rank}"))])
        for row in rows:
            cells = [cell for entry in row["classes"] for cell in (entry["class"], f"{entry['probability']:.6f}")]
            writer.writerow([row["file"], *cells])
