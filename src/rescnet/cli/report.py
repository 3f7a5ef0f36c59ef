"""``rescnet report``: an HTML page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from .shared_options import Device, Layers, Model, Overwrite, Resize, Root


def report(
    model: Model,
    out: Annotated[
        Path | None,
        typer.Option(help="Output file. Default: report.html in the folder of the model.", show_default=False),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Public data set, image folder or .npz file to show. Default: the images it was trained on.",
            show_default=False,
        ),
    ] = None,
    without_images: Annotated[
        bool, typer.Option("--without-images", help="Leave out the parts that need images.")
    ] = False,
    layers: Layers = None,
    root: Root = None,
    resize: Resize = False,
    overwrite: Overwrite = False,
    device: Device = "auto",
) -> None:
    """Write one self-contained HTML page that explains a model.

    It shows test images, or validation images if there are no test images.
    """
    from ..model_files import ModelFolder, load_model
    from ..network.device import choose_device
    from ..report import write_report
    from .sources import check_held_out, dataset_of

    chosen_device = choose_device(device)
    folder = ModelFolder.open(model)
    page = out or model / "report.html"
    if page.exists() and not overwrite:
        raise ValueError(f"the output file must not exist, got {page}. Use --overwrite, or another name with --out.")
    dataset = None
    if not (without_images or source or folder.about.get("source")):
        raise ValueError(
            f"images must be named: {model} does not record what it was trained on. Name images with test images by "
            "--source, or use --without-images."
        )
    if not without_images:
        dataset, own = dataset_of(folder, source, root, resize)
        if own and dataset.test is None:
            check_held_out(dataset, folder.about)
    written = write_report(load_model(model, layers, chosen_device), page, dataset, overwrite=overwrite)
    Console().print(f"report: [bold]{escape(str(written))}[/bold]", highlight=False, soft_wrap=True)
