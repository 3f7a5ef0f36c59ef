"""The page: a template, one style, one script and the data, joined into one file that asks nothing of a network."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib import resources
from typing import Any

# In this order they become one script: drawing first, then the sections, then what starts them.
SCRIPTS = (
    "draw.js",
    "chart.js",
    "headline.js",
    "chain.js",
    "step_art.js",
    "layer.js",
    "accuracy.js",
    "picker.js",
    "story.js",
    "confusion.js",
    "gallery.js",
    "filters.js",
    "cost.js",
    "settings.js",
    "start.js",
)


def build_page(data: dict[str, Any], title: str) -> str:
    """Return the page.

    Nothing of the data is ever read as HTML: it stands in a JSON block in which no tag can begin, the script writes it
    as text only, and the content security policy lets no other script run and nothing be fetched.
    """
    script = "'use strict';\n(() => {\n" + "\n".join(_asset(name) for name in SCRIPTS) + "\n})();\n"
    digest = b64encode(sha256(script.encode()).digest()).decode()
    parts = {
        "POLICY": f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "TITLE": escape(title),
        "STYLE": _asset("page.css"),
        "DATA": as_json(data),
        "SCRIPT": script,
    }
    # One pass: a marker's name inside the data stays what it is.
    return re.sub(r"<!--(POLICY|TITLE|STYLE|DATA|SCRIPT)-->", lambda found: parts[found[1]], _asset("page.html"))


def as_json(data: dict[str, Any]) -> str:
    r"""Return JSON that can stand inside a script element: ``<``, ``>`` and ``&`` are written as escapes.

    Examples
    --------
    >>> as_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text("utf-8")
