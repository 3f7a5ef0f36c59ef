"""Options declared once: what they mean, which values they may have, and how a wrong one is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints


def option(default: Any, meaning: str, low: float | None = None, high: float | None = None) -> Any:
    """Declare an option: its default, what it means, and the least and greatest value it may have."""
    return field(default=default, metadata={"help": meaning, "low": low, "high": high})


@cache
def declared_types(owner: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields."""
    return get_type_hints(owner)


def checked(name: str, value: Any, owner: type) -> Any:
    """Return the value in its declared type, or refuse it in one sentence."""
    declared = declared_types(owner)[name]
    limits = owner.__dataclass_fields__[name].metadata  # type: ignore[attr-defined]
    if get_origin(declared) is Literal:
        if value not in get_args(declared):
            near = get_close_matches(str(value), get_args(declared), 1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(get_args(declared))}."
            raise ValueError(f"{name} is {value!r}, which is no choice: {hint}")
        return value
    if get_origin(declared) is tuple:
        if isinstance(value, str):
            value = value.replace(",", " ").split()
        numbers = tuple(_number(name, item, int) for item in (value if isinstance(value, list | tuple) else [value]))
        if not numbers and owner.__dataclass_fields__[name].default:  # type: ignore[attr-defined]
            raise ValueError(f"{name} is empty: choose for instance 4 2 1.")
        for number in numbers:
            _within(name, number, limits)
        return numbers
    if declared is bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}: choose true or false.")
        return value
    if declared is str:
        if not isinstance(value, str):
            raise ValueError(f"{name} is {value!r}: write it as text.")
        return value
    number = _number(name, value, declared)
    _within(name, number, limits)
    return number


def _number(name: str, value: Any, kind: type) -> Any:
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, bool) or (not isinstance(value, str) and number != value):
        raise ValueError(f"{name} is {value!r}: give {'a whole number' if kind is int else 'a number'}.")
    return number


def _within(name: str, value: float, limits: Mapping[str, Any]) -> None:
    low, high = limits["low"], limits["high"]
    if (low is not None and not value >= low) or (high is not None and not value <= high) or value in (float("inf"),):
        wanted = f"at least {low:g}" if high is None else f"between {low:g} and {high:g}"
        raise ValueError(f"{name} is {value:g}: choose a finite value {wanted}.")
