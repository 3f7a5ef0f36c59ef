"""Where things lie in a model's folder, and the checksums that tie them together."""

from __future__ import annotations

import hashlib
import json
from typing import Any

FORMAT = "rescnet-model"
VERSION = 2
READABLE = (1, 2)
MODEL, HISTORY, LAYERS, READOUT = "model.json", "history.jsonl", "layers", "readout.safetensors"
CHECKSUM = "checksum"
COPY_AGAIN = "copy the model again from where it came, or train it anew"


def layer_name(number: int) -> str:
    """Return the file of a layer, counted from 1.

    Examples
    --------
    >>> layer_name(1)
    'layers/00001.safetensors'
    """
    return f"{LAYERS}/{number:05}.safetensors"


def sign(content: dict[str, Any], previous: str = "") -> dict[str, Any]:
    """Return the content with its checksum, which also covers ``previous``, the checksum of what came before."""
    return {**content, CHECKSUM: checksum_of(content, previous)}


def is_signed(content: dict[str, Any], previous: str = "") -> bool:
    """Return whether the content is what was signed, after what came before."""
    return content.get(CHECKSUM) == checksum_of(content, previous)


def checksum_of(content: dict[str, Any], previous: str = "") -> str:
    """Return the SHA-256 of the content, whatever the order of its keys and the space between them."""
    plain = {key: value for key, value in content.items() if key != CHECKSUM}
    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256((previous + canonical).encode()).hexdigest()


def parse_object(text: bytes) -> dict[str, Any] | None:
    """Return a JSON object, or None where the text is not one."""
    try:
        content = json.loads(text.decode(errors="surrogatepass"))
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
