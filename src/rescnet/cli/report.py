"""``rescnet report``: one HTML page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from .layers import Layers


def report(
    model: Annotated[Path, typer.Argument(help="The model's folder.")],
    out: Annotated[
        Path | None, typer.Option(help="The page; by default report.html in the model's folder.", show_default=False)
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="A public set, an image folder or an .npz file to show it on; by default what it was trained on.",
            show_default=False,
        ),
    ] = None,
    without_images: Annotated[
        bool, typer.Option("--without-images", help="Leave out everything that needs images.")
    ] = False,
    layers: Layers = None,
    root: Annotated[Path | None, typer.Option(help="Folder of the public sets.", show_default=False)] = None,
    resize: Annotated[bool, typer.Option("--resize", help="Resize a folder's images to the model's size.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over the page if it is there.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …; auto: a GPU if there is one.")] = "auto",
) -> None:
    """Write one HTML page, which needs no other file, from which a person understands a model.

    It is shown on test images, or on those held out in training where there are none.
    """
    from ..model_files import ModelFolder, load_model
    from ..network.device import choose_device
    from ..report import write_report
    from .sources import check_held_out, dataset_of

    chosen_device = choose_device(device)
    folder = ModelFolder.open(model)
    page = out or model / "report.html"
    if page.exists() and not overwrite:
        raise ValueError(f"{page} is there already: say --overwrite, or choose another place with --out.")
    dataset = None
    if not (without_images or source or folder.about.get("source")):
        raise ValueError(
            f"{model} does not say which images it was trained on: name a set, a folder or an .npz file that has test "
            "images with --source, or say --without-images."
        )
    if not without_images:
        dataset, own = dataset_of(folder, source, root, resize)
        if own and dataset.test is None:
            check_held_out(dataset, folder.about)
    written = write_report(load_model(model, layers, chosen_device), page, dataset, overwrite=overwrite)
    Console().print(f"report: [bold]{escape(str(written))}[/bold]", highlight=False, soft_wrap=True)
