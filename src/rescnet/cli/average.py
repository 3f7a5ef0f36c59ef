"""The flag of ``evaluate``, ``predict`` and ``export`` that chooses what a prediction is the mean of."""

from __future__ import annotations

from typing import Annotated

import typer

Average = Annotated[
    str | None,
    typer.Option(
        help="Views a prediction is the mean of, as flip or 'flip + shift 1'; '': the image as it is; by default what "
        "the model was trained with.",
        show_default=False,
    ),
]
