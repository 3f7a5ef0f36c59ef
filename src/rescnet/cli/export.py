"""``rescnet export``: a model, or its first layers, as ONNX or as a torch.export program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from .shared_options import Layers, Model, Overwrite, TestViews


def export(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output file: .onnx, or .pt2 for torch.export.load.")],
    layers: Layers = None,
    test_views: TestViews = None,
    tolerance: Annotated[
        float, typer.Option(help="Largest difference between the outputs of the file and of the model.")
    ] = 1e-4,
    without_readout: Annotated[
        bool,
        typer.Option("--without-readout", help="Export only the layers of a model with a kernel readout."),
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Write a model as ONNX or as a torch.export program, and compare its outputs with those of the model.

    The input is float32 (n, channels, height, width), in the range of the training images: 0 to 255 for image files,
    not divided by 255. The output is one number per class; the largest is the prediction.

    ONNX takes some seconds per layer.
    """
    from ..export.files import export_onnx, export_program, images_wanted
    from ..formatting import count, show_bytes
    from ..model_files import load_model
    from ..progress import Bar

    write = {".onnx": export_onnx, ".pt2": export_program}.get(out.suffix.lower())
    if write is None:
        raise ValueError(f"the output file must end in .onnx or .pt2, got {out}.")
    if out.exists() and not overwrite:
        raise ValueError(f"the output file must not exist, got {out}. Use --overwrite, or choose another name.")
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
    console.print(f"input: {images_wanted(loaded.network)}", highlight=False, soft_wrap=True)
    console.print(f"largest difference from the model's outputs: {difference:.2g}", highlight=False)
