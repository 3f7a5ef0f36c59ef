"""The flag of ``evaluate``, ``predict`` and ``export`` that chooses what a prediction is the mean of."""

from __future__ import annotations

from typing import Annotated

import typer

TestViews = Annotated[
    str | None,
    typer.Option(
        help="Views that a prediction is averaged over, e.g. 'flip + shift 1'; '' is the image alone. Default: the "
        "model's own.",
        show_default=False,
    ),
]
