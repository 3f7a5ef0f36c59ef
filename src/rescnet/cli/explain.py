"""``rescnet explain``: the reasons of one prediction."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ..base.errors import DataError
from ..base.files import atomic_write
from .shared import Device, Model, Overwrite, check_out, plain_table, say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..explain.explanation import Explanation, Neighbour, Numbers

TOP = 3  # classes in the tables
ROWS = 12  # of a map in characters, at most
SHADES = " ░▒▓█"


def explain(
    model: Model,
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="Image file.")],
    plot: Annotated[Path | None, typer.Option(help="Output file for a figure, .png, .svg or .pdf.")] = None,
    overwrite: Overwrite = False,
    device: Device = "auto",
) -> None:
    """Explain the prediction of one image file: layers, training images and places in the image that decide.

    The output of a class is the sum of its map over the image, plus an intercept.
    """
    from ..network.device import choose_device
    from ..saving import load_model

    check_out(plot, overwrite, ".png", ".svg", ".pdf")
    chosen = choose_device(device)
    if image.is_dir():
        raise DataError(f"image must be a file, got the folder {image}. Name one of its files.")
    found = load_model(model, device=chosen).explain(image)
    _print(Console(), found)
    if plot is not None:
        with atomic_write(plot) as path, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph", UserWarning)  # class names in a script that the font lacks
            found.plot().savefig(path, format=plot.suffix.lower()[1:], dpi=150)
        say(Console(), f"\nfigure written to {escape(str(plot))}")


def _print(console: Console, found: Explanation) -> None:
    for sentence in found.sentences()[: 3 if found.readout else 2]:
        say(console, escape(sentence))
    shown = found.shown[:TOP]
    names = [escape(found.class_names[number]) for number in shown]
    say(console, "\n[bold]outputs[/bold]")
    table = plain_table("after layer", *names)
    for layer, outputs in enumerate(found.layer_outputs, 1):
        table.add_row(str(layer), *(f"{outputs[number]:.3f}" for number in shown))
    if found.readout:
        table.add_row("readout", *(f"{found.outputs[number]:.3f}" for number in shown))
    for title, parts in zip(("pixels for", "pixels against", "intercept"), found.summands[:TOP].T, strict=True):
        table.add_row(f"[dim]{title}[/dim]", *(f"[dim]{part:+.3f}[/dim]" for part in parts))
    console.print(table)
    for title, images in (("nearest", found.nearest), ("most influential", found.influential)):
        if images:
            say(console, f"\n[bold]{title} training images[/bold]")
            _print_neighbours(console, images, found.label)
    say(console, f"\n[bold]places in the image that speak for {names[0]} (left) and against it (right)[/bold]")
    for left, right in zip(*shaded(found.maps[0]), strict=True):
        console.out(f"  {left}  │  {right}", highlight=False)


def _print_neighbours(console: Console, images: tuple[Neighbour, ...], label: str) -> None:
    table = plain_table("image", "class", "similarity", f"part of {escape(label)}'s output")
    for image in images:
        name = escape(image.file) if image.file else str(image.index)
        table.add_row(name, escape(image.label), f"{image.similarity:.2f}", f"{image.share:+.3f}")
    console.print(table)


def shaded(shares: Numbers) -> tuple[list[str], list[str]]:
    """Return a map (h, w) as lines of shades, two characters per cell: of the positive sums, and of the negative ones.

    Examples
    --------
    >>> import numpy as np
    >>> shaded(np.array([[0.0, 4.0], [-1.0, 2.0]]))
    (['  ██', '  ▒▒'], ['    ', '░░  '])
    """
    import numpy as np

    step = -(-max(shares.shape) // ROWS)
    height, width = (-(-side // step) for side in shares.shape)
    padded = np.zeros((height * step, width * step))
    padded[: shares.shape[0], : shares.shape[1]] = shares
    cells = padded.reshape(height, step, width, step).sum((1, 3))
    levels = np.rint(cells / max(float(np.abs(cells).max()), 1e-30) * (len(SHADES) - 1)).astype(int)

    def lines(of: NDArray[np.int_]) -> list[str]:
        return ["".join(2 * SHADES[level] for level in row) for row in of.clip(0)]

    return lines(levels), lines(-levels)
