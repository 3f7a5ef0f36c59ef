"""The argument of ``train`` and ``compare`` that names the images."""

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
