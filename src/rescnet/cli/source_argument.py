"""What names the images of ``train`` and ``compare``: an argument, or an option for those who expect one."""

from __future__ import annotations

from typing import Annotated

import typer

Source = Annotated[
    str | None,
    typer.Argument(
        help="A public set (mnist, cifar10, …), an image folder or an .npz file; by default digits.",
        show_default=False,
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option("--dataset", metavar="SOURCE", help="Another way to name the images.", show_default=False),
]


def the_one_named(source: str | None, dataset: str | None) -> str | None:
    """Return what the argument or the option names, None if neither does; both are an error."""
    if source is not None and dataset is not None:
        raise ValueError(f"both {source} and --dataset {dataset} were given: name the images once.")
    return dataset if source is None else source
