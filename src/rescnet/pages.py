"""Pages of one HTML file that makes no request: a template, with style, scripts and data put in its markers."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib import resources
from typing import Any


def html_page(package: str, scripts: Sequence[str], data: Any, images: str = "data:", **parts: str) -> str:
    """Return the page ``assets/page.html`` of a package.

    The data is never read as HTML. It is a JSON block without angle brackets, and the script inserts it as text only.
    The content security policy allows no other script and no request, and ``images`` from these sources only. ``parts``
    are texts for more markers.
    """
    script = "'use strict';\n(() => {\n" + "\n".join(asset(package, name) for name in scripts) + "\n})();\n"
    digest = b64encode(sha256(script.encode()).digest()).decode()
    parts |= {
        "POLICY": f"default-src 'none'; img-src {images}; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "STYLE": asset(package, "page.css"),
        "DATA": as_json(data),
        "SCRIPT": script,
    }
    # One pass, so that a marker inside the data is not replaced.
    return re.sub(r"<!--([A-Z]+)-->", lambda found: parts[found[1]], asset(package, "page.html"))


def as_json(data: Any) -> str:
    r"""Return JSON for a script element, with ``<``, ``>`` and ``&`` escaped.

    Examples
    --------
    >>> as_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def asset(package: str, name: str) -> str:
    """Return a file of a package's folder ``assets`` as text."""
    return resources.files(package).joinpath("assets", name).read_text("utf-8")
