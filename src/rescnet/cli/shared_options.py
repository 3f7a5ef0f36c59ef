"""Arguments and options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of the model.")]
Source = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help="Public data set (mnist, cifar10, ...), image folder or .npz file. Default: digits.",
        show_default=False,
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option("--dataset", metavar="SOURCE", help="Same as the argument SOURCE.", show_default=False, hidden=True),
]
Layers = Annotated[
    int | None,
    typer.Option(
        help="Use the first n layers. Default: the best validation depth if trained with --patience, else all.",
        show_default=False,
    ),
]
TestViews = Annotated[
    str | None,
    typer.Option(
        help="Views that a prediction is averaged over, e.g. 'flip + shift 1'. '' is the image alone. Default: those "
        "of the model.",
        show_default=False,
    ),
]
Root = Annotated[Path | None, typer.Option(help="Folder of the public data sets.", show_default=False)]
Resize = Annotated[bool, typer.Option("--resize", help="Resize the images to the size that the model expects.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...; auto uses a GPU if there is one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]


def one_source(source: str | None, dataset: str | None) -> str | None:
    """Return the source given as an argument or as ``--dataset``; None if neither was given."""
    if source is not None and dataset is not None:
        raise ValueError(f"the images must be named once, got {source} and --dataset {dataset}. Leave one out.")
    return dataset if source is None else source
