"""``rescnet playground``: a page that trains a network while you draw, or shows the inside of a model."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ..base.errors import ConfigError
from ..base.files import atomic_write
from .shared import Layers, Overwrite, check_out, say


def playground(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="Folder of a model to show. Default: train in the page.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Output file. Default: a temporary file.")] = None,
    layers: Layers = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Write the page without opening it.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Open a page that trains a network while you draw; with MODEL, a page that shows its layers at work.

    The page is one file. It needs no server and makes no request.
    """
    from ..playground import build_page

    if layers is not None and model is None:
        raise ConfigError("MODEL must be given with --layers. The page has a slider for its own layers.")
    check_out(out, overwrite)
    data = None
    if model is not None:
        from ..playground.model import model_data
        from ..saving import load_model

        data = model_data(load_model(model, layers))
    page = out or Path(mkdtemp(prefix="rescnet-")) / "playground.html"
    with atomic_write(page) as partial:
        partial.write_text(build_page(data), "utf-8")
    say(Console(), f"playground: [bold]{escape(str(page))}[/bold]")
    if not no_open:
        webbrowser.open(page.absolute().as_uri())
