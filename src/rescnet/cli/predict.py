"""``rescnet predict``: what is in these pictures."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .average import TestViews
from .layers import Layers

if TYPE_CHECKING:
    from torch import Tensor

TOP = 3


def predict(
    model: Annotated[Path, typer.Argument(help="The model's folder.")],
    paths: Annotated[list[Path], typer.Argument(help="Picture files, or folders of them.")],
    layers: Layers = None,
    test_views: TestViews = None,
    resize: Annotated[bool, typer.Option("--resize", help="Resize pictures to the model's size.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the predictions to this file, .csv or .json.", show_default=False)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over the file if it is there.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …; auto: a GPU if there is one.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, one a picture.")] = False,
) -> None:
    """Tell the three likeliest classes of each picture, with probabilities.

    Pictures become grey or colour, as the model's training images were.

    Probabilities are a softmax of the network's outputs at a fixed temperature: scores, not calibrated, and too sure
    where training images were few.
    """
    from ..model_files import ModelFolder, load_model
    from ..network.device import choose_device
    from ..network.probabilities import probabilities, target_output
    from .batches import batch_of, outputs_of
    from .image_files import check_pictures, find_pictures, read_pictures

    _check_out(out, overwrite)
    chosen_device = choose_device(device)
    folder = ModelFolder.open(model)
    files = find_pictures(paths)
    check_pictures(files, folder.image_shape, resize)
    network = load_model(model, layers, chosen_device).network.averaged_over(test_views)
    pictures = read_pictures(
        files, folder.image_shape, resize, folder.about.get("preprocessing", {}), batch_of(network)
    )
    rows: list[dict[str, Any]] = []
    for outputs in outputs_of(network, pictures, len(files), Console(stderr=True)):
        shares = probabilities(outputs, target_output(network))
        rows += _likeliest(files[len(rows) : len(rows) + len(shares)], shares, folder.class_names)
    if out is not None:
        _write(out, rows)
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
    else:
        _print(rows, out)


def _likeliest(files: Sequence[Path], shares: Tensor, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield, of each picture, its file and its likeliest classes, the likeliest first."""
    top = shares.topk(min(TOP, len(names)), dim=1)
    for file, indices, values in zip(files, top.indices.tolist(), top.values.tolist(), strict=True):
        classes = [{"class": names[index], "probability": value} for index, value in zip(indices, values, strict=True)]
        yield {"file": str(file), "classes": classes}


def _print(rows: Sequence[dict[str, Any]], out: Path | None) -> None:
    from ..formatting import count

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("picture", overflow="fold")
    for title in ("likeliest", "second", "third")[: len(rows[0]["classes"])]:
        table.add_column(title)
    for row in rows:
        cells = [f"{escape(entry['class'])} [dim]{100 * entry['probability']:.1f} %[/dim]" for entry in row["classes"]]
        table.add_row(escape(row["file"]), f"[bold]{cells[0]}[/bold]", *cells[1:])
    console = Console()
    console.print(table)
    if out is not None:
        written = count(len(rows), "prediction", "predictions")
        console.print(f"\n{written} written to {escape(str(out))}", highlight=False, soft_wrap=True)


def _check_out(out: Path | None, overwrite: bool) -> None:
    if out is None:
        return
    if out.suffix.lower() not in (".csv", ".json"):
        raise ValueError(f"predictions cannot be written to {out}: choose a name that ends in .csv or .json.")
    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {out.parent} to write {out.name} in: create it, or choose another place.")
    if out.is_dir() or (out.exists() and not overwrite):
        raise ValueError(f"{out} is there already: choose another name, or say --overwrite.")


def _write(out: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write all predictions, beside the file first so that it is never half there."""
    if out.suffix.lower() == ".json":
        text = json.dumps(rows, indent=1) + "\n"
    else:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        ranks = range(1, len(rows[0]["classes"]) + 1)
        writer.writerow(["file", *(title for rank in ranks for title in (f"class_{rank}", f"probability_{rank}"))])
        for row in rows:
            cells = [cell for entry in row["classes"] for cell in (entry["class"], f"{entry['probability']:.6f}")]
            writer.writerow([row["file"], *cells])
        text = stream.getvalue()
    beside = out.with_name(f".{out.name}.part")
    beside.write_text(text, "utf-8")
    beside.replace(out)
