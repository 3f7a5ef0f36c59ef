"""``rescnet export``: a model, or its first layers, as a file other programs run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from .average import TestViews
from .layers import Layers


def export(
    model: Annotated[Path, typer.Argument(help="The model's folder.")],
    out: Annotated[Path, typer.Argument(help="The file to write: .onnx, or .pt2 for torch.export.load.")],
    layers: Layers = None,
    test_views: TestViews = None,
    tolerance: Annotated[
        float, typer.Option(help="Greatest difference from the model's outputs the file may show.")
    ] = 1e-4,
    without_readout: Annotated[
        bool,
        typer.Option("--without-readout", help="Export the layers alone of a model with a kernel readout."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Write a model as ONNX or as a torch.export program, and compare it with the model.

    The file takes images as float32 (n, channels, height, width), in the units of the training images: 0 to 255 for
    pictures, not divided by 255. It returns an output for each class; the greatest is the answer.

    ONNX takes some seconds a layer.
    """
    from ..export.files import export_onnx, export_program, images_wanted
    from ..formatting import count, show_bytes
    from ..model_files import load_model
    from ..progress import Bar

    write = {".onnx": export_onnx, ".pt2": export_program}.get(out.suffix.lower())
    if write is None:
        raise ValueError(f"{out} ends in neither .onnx nor .pt2: name it by the format you want.")
    if out.exists() and not overwrite:
        raise ValueError(f"{out} is there already: choose another name, or say --overwrite.")
    loaded = load_model(model, layers)
    loaded = replace(loaded, network=loaded.network.averaged_over(test_views))
    columns = (TextColumn("  {task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(Console(stderr=True), *columns) as bar:
        task = bar.add_task("", total=None)
        difference = write(
            loaded,
            out,
            tolerance=tolerance,
            overwrite=overwrite,
            without_readout=without_readout,
            progress=lambda step: bar.update(task, description=step),
        )
    depth, size = count(len(loaded.network.layers), "layer", "layers"), show_bytes(out.stat().st_size)
    console = Console()
    console.print(f"{escape(str(out))}: {depth}, {size}", highlight=False, soft_wrap=True)
    console.print(f"takes {images_wanted(loaded.network)}", highlight=False, soft_wrap=True)
    console.print(f"largest difference from the model's outputs: {difference:.2g}", highlight=False)
