"""Alterations of bytes and of JSON, drawn at random."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 255, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.5, 1e-320, 1e308),
    *(float("nan"), float("inf"), float("-inf"), "", "x", "0", "1e999", "../../../etc/passwd", "/dev/zero", "\ud800"),
    *("a" * 3000, "flip + shift 3", "pca; dct", "kernel", [], {}, [[]], [0], [1, 2, 3], ["a", "b"], {"a": 1}),
)


def flip(rng: random.Random, data: bytes) -> bytes:
    """Flip one bit, sometimes a few."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 8))):
        bit = rng.randrange(8 * len(changed))
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def truncate(rng: random.Random, data: bytes) -> bytes:
    """Cut the end off."""
    return data[: rng.randrange(len(data))]


def extend(rng: random.Random, data: bytes) -> bytes:
    """Append bytes: random ones, zeros, or the file's own."""
    size = rng.randrange(1, 200)
    return data + rng.choice((rng.randbytes(size), bytes(size), data[:size], b"\n"))


def overwrite(rng: random.Random, data: bytes) -> bytes:
    """Overwrite a block, as a damaged disk does."""
    start, size = rng.randrange(len(data)), rng.randrange(1, 64)
    block = rng.choice((bytes(size), b"\xff" * size, rng.randbytes(size), data[:size]))
    return data[:start] + block + data[start + len(block) :]


def move(rng: random.Random, data: bytes) -> bytes:
    """Cut a block out and insert it elsewhere, or nowhere, or twice."""
    first, second = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
    block, rest = data[first:second], data[:first] + data[second:]
    place = rng.randrange(len(rest) + 1)
    return rest[:place] + block * rng.choice((0, 1, 2)) + rest[place:]


def empty(rng: random.Random, data: bytes) -> bytes:
    """Leave nothing."""
    return b""


BYTES: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "flip": flip,
    "truncate": truncate,
    "extend": extend,
    "overwrite": overwrite,
    "move": move,
    "empty": empty,
}


def alter_bytes(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """Return an alteration's name and the altered bytes; half of all are flipped bits."""
    kind = "flip" if rng.random() < 0.5 else rng.choice(list(BYTES))
    return kind, BYTES[kind](rng, data) if data else b"x"


def alter_json(rng: random.Random, content: Any) -> Any:
    """Return a copy of JSON content with another value, type, key or length somewhere."""
    changed = deepcopy(content)
    with suppress(RecursionError):  # values that are nested deeply already
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _alter_once(rng, changed)
    return changed


def _alter_once(rng: random.Random, content: Any) -> None:
    places = list(_places(content))
    if not places:
        return
    holder, key = rng.choice(places)
    what = rng.random()
    if what < 0.1:
        del holder[key]
    elif what < 0.15 and isinstance(holder, dict):
        name = rng.choice(("extra", "", "__class__", "layers", "file", *map(str, holder)))
        holder[name] = deepcopy(rng.choice(VALUES))
    elif what < 0.2 and isinstance(holder, list):
        holder.insert(key, json.loads(as_text(holder[key])))
    else:
        holder[key] = _other_value(rng, holder[key])


def _places(content: Any) -> Any:
    parts = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in list(parts):
        yield content, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _other_value(rng: random.Random, value: Any) -> Any:
    own: list[Any] = [[value], {"a": value}, str(value), [value] * 3]
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**70:
        own += [-value, value + 1, value - 1, float(value), value * 1000, value / 2]
    if isinstance(value, str) and value:
        own += [value + " ", value.upper(), value[:-1], value * 2]
    deep: Any = value
    for _ in range(rng.choice((40, 900))):
        deep = [deep]
    chosen = rng.choice((*own, *own, *VALUES, deep))
    return chosen if chosen is deep else deepcopy(chosen)


def as_text(content: Any) -> bytes:
    """Return JSON content as text; one that cannot be written becomes an empty object."""
    try:
        return json.dumps(content).encode()
    except (ValueError, RecursionError):
        return b"{}"
