"""The page: style, scripts, digits and maybe a model, joined to one HTML file that makes no request."""

from __future__ import annotations

import json
from typing import Any

from ..pages import asset, html_page

# Joined in this order: arithmetic, then the page, then the start.
SCRIPTS = (
    *("random.js", "linear_algebra.js", "stages.js", "filters.js", "heads.js", "network.js"),
    *("state.js", "pictures.js", "pad.js", "answer.js", "stage_cards.js", "stage_details.js"),
    *("readout.js", "model.js", "teaching.js"),
    "start.js",
)


def build_page(model: dict[str, Any] | None = None) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    model : dict, optional
        Result of :func:`rescnet.playground.model.model_data`. Without it the page trains networks of its own.

    Examples
    --------
    >>> page = build_page()
    >>> len(page) < 500_000, "<script src" in page
    (True, False)
    """
    data = {"digits": json.loads(asset(__package__, "digits.json")), "model": model}
    formulas = asset(__package__, "formulas.html")
    return html_page(__package__, SCRIPTS, data, images="data: blob:", FORMULAS=formulas)
