"""``rescnet export`` and ``rescnet report``: a model as an ONNX file, a torch.export program or an HTML page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from ..base.errors import DataError
from ..base.text import count, show_bytes, show_seconds
from .shared import Device, Layers, Model, OtherSource, Overwrite, Root, Views, check_out, progress_bar, say


def export(
    model: Model,
    out: Annotated[Path, typer.Option(help="Output file: .onnx, or .pt2 for torch.export.load.")],
    layers: Layers = None,
    views: Views = None,
    tolerance: Annotated[
        float, typer.Option(help="Largest difference between the outputs of the file and of the model.")
    ] = 1e-4,
    without_readout: Annotated[
        bool, typer.Option("--without-readout", help="Export only the layers of a model with a kernel readout.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Write a model as ONNX or as a torch.export program, and compare its outputs with those of the model.

    The input is float32 (n, channels, height, width), in the range of the training images: 0 to 255 for image files,
    not divided by 255. The output is one number per class; the largest is the prediction.

    ONNX takes seconds per layer, mostly for the conversion.
    """
    from ..base.progress import Bar
    from ..export.files import export_onnx, export_program, images_wanted
    from ..saving import load_model

    check_out(out, overwrite, ".onnx", ".pt2")
    write = export_onnx if out.suffix.lower() == ".onnx" else export_program
    loaded = load_model(model, layers)
    loaded = replace(loaded, network=loaded.network.averaged_over(views))
    started = perf_counter()
    with Bar(Console(stderr=True), TextColumn("  running"), BarColumn(), TimeElapsedColumn()) as bar:
        bar.add_task("", total=None)
        difference = write(
            loaded,
            out,
            tolerance=tolerance,
            overwrite=overwrite,
            without_readout=without_readout,
            progress=lambda step: say(bar.console, f"{show_seconds(perf_counter() - started):>10}  {step}", "dim"),
        )
    depth, size = count(len(loaded.network.layers), "layer", "layers"), show_bytes(out.stat().st_size)
    console = Console()
    say(console, f"{escape(str(out))}: {depth}, {size}")
    say(console, f"input: {images_wanted(loaded.network)}")
    console.print(f"largest difference from the model's outputs, on random images: {difference:.2g}", highlight=False)


def report(
    model: Model,
    source: OtherSource = None,
    out: Annotated[
        Path | None, typer.Option(help="Output file. Default: report.html in the folder of the model.")
    ] = None,
    without_images: Annotated[
        bool, typer.Option("--without-images", help="Leave out the parts that need images.")
    ] = False,
    layers: Layers = None,
    root: Root = None,
    overwrite: Overwrite = False,
    device: Device = "auto",
) -> None:
    """Write one self-contained HTML page that explains a model.

    It shows test images, or validation images if there are no test images.
    """
    from ..network.device import choose_device
    from ..report import write_report
    from ..saving import ModelFolder, load_model
    from .images import check_held_out, dataset_of, say_notes

    chosen_device = choose_device(device)
    folder = ModelFolder.open(model)
    page = out or model / "report.html"
    check_out(page, overwrite)
    dataset = None
    if not (without_images or source or folder.about.get("source")):
        raise DataError(
            f"images must be named: {model} does not record what it was trained on. Name a SOURCE with test images, "
            "or use --without-images."
        )
    if not without_images:
        dataset, own = dataset_of(folder, source, root)
        if not own:
            say_notes(dataset)
        elif dataset.test is None:
            check_held_out(dataset, folder.about)
        if dataset.test is None and dataset.validation is None:  # all images of another folder are new ones
            dataset = None if own else replace(dataset, test=dataset.train)
    loaded = load_model(model, layers or len(folder.records), chosen_device)
    if layers is None:  # all layers are shown; those used and the readout are marked
        network = replace(loaded.network, readout=folder.read_readout(), used_layers=folder.used_layers)
        loaded = replace(loaded, network=network, history=folder.history(), about=folder.about)
    with progress_bar("measuring and explaining images", many=2) as show:
        written = write_report(loaded, page, dataset, overwrite=overwrite, progress=show)
    say(Console(), f"report: [bold]{escape(str(written))}[/bold]")
    if dataset is None and not without_images:
        say(Console(), "It shows no images, because these trained the model. Name others: rescnet report MODEL SOURCE.")
