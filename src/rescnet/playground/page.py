"""The page: style, scripts, digits and maybe a model, joined to one HTML file that makes no request."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from importlib import resources
from typing import Any

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
    script = "'use strict';\n(() => {\n" + "\n".join(_asset(name) for name in SCRIPTS) + "\n})();\n"
    digest = b64encode(sha256(script.encode()).digest()).decode()
    data = {"digits": json.loads(_asset("digits.json")), "model": model}
    parts = {
        "POLICY": f"default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "STYLE": _asset("page.css"),
        "FORMULAS": _asset("formulas.html"),
        "DATA": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "SCRIPT": script,
    }
    # One pass, so that a marker inside the data is not replaced.
    return re.sub(r"<!--([A-Z]+)-->", lambda found: parts[found[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text("utf-8")
