"""The flag of ``evaluate``, ``predict``, ``export`` and ``report`` that chooses how deep a model is used."""

from __future__ import annotations

from typing import Annotated

import typer

Layers = Annotated[
    int | None,
    typer.Option(
        help="Use the first so many layers; by default all, or those best on validation images where it was trained "
        "with patience.",
        show_default=False,
    ),
]
