"""Declaration and validation of one option.

An option is declared once, where its dataclass is defined. The command line, the estimator, the model files and the
documentation read the same declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..base.errors import ConfigError
from ..base.text import nearest


class OptionError(ConfigError):
    """An option, by name, with a value that it cannot have; the reason is e.g. ``"must be at least 1, got 0."``."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name, self.reason = name, reason

    def under_name(self, name: str) -> OptionError:
        """Return the same error for an option that the caller knows by another name."""
        return OptionError(name, self.reason)


class Options:
    """Base of the dataclasses of options: it validates the values."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, validated(name, value, type(self)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}


MOST_NUMBERS = 16  # of an option that is a list
FixedBy = Literal["layers", "run", "nothing"]


def group(title: str, fixed_by: FixedBy) -> Callable[..., Any]:
    """Return a function that declares the options of one group; the title is its heading in help texts.

    ``fixed_by`` is the default of the group. ``"layers"``: all layers of a network share the value. ``"run"``: a warm
    start may change it, a resumed run may not. ``"nothing"``: a resumed run may change it too. ``common`` options are
    shown by ``--help``, the others by ``--help-all``. ``sklearn`` is the name of the estimator's parameter.
    """

    def declare(
        default: Any,
        meaning: str,
        low: float | None = None,
        high: float | None = None,
        *,
        common: bool = False,
        sklearn: str = "",
        fixed_by: FixedBy = fixed_by,
    ) -> Any:
        limits = {"low": low, "high": high}
        facts = {"help": meaning, "group": title, "common": common, "sklearn": sklearn, "fixed_by": fixed_by}
        return field(default=default, metadata=limits | facts)

    return declare


@cache
def declared_types(owner: type) -> dict[str, Any]:
    """Return the types of the fields of a dataclass or a ``TypedDict``."""
    return get_type_hints(owner)


@cache
def options_of(owner: type) -> dict[str, Field[Any]]:
    """Return the declarations of a dataclass's options by name."""
    return {entry.name: entry for entry in fields(owner)}


def validated(name: str, value: Any, owner: type) -> Any:
    """Return the value in its declared type, or raise :class:`OptionError`."""
    declared, entry = declared_types(owner)[name], options_of(owner)[name]
    if get_origin(declared) is Literal:
        choices = get_args(declared)
        if value not in choices:
            raise OptionError(name, f"must be one of {', '.join(choices)}, got {value!r}.{nearest(value, choices)}")
        return value
    if get_origin(declared) is tuple:
        return _validated_numbers(name, value, entry)
    if declared is bool or declared is str:
        if not isinstance(value, declared):
            rule = "true or false" if declared is bool else "text"
            raise OptionError(name, f"must be {rule}, got {value!r}.")
        return value
    number = _number(name, value, declared)
    _check_limits(name, number, entry.metadata)
    return number


def _validated_numbers(name: str, value: Any, entry: Field[Any]) -> tuple[int, ...]:
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    numbers = tuple(_number(name, item, int) for item in (value if isinstance(value, list | tuple) else [value]))
    if not numbers:
        example = ", ".join(map(str, entry.default)) if entry.default is not MISSING else "1"
        raise OptionError(name, f"must not be empty. Use e.g. {example}.")
    if len(numbers) > MOST_NUMBERS:
        raise OptionError(name, f"must be at most {MOST_NUMBERS} numbers, got {len(numbers)}.")
    for number in numbers:
        _check_limits(name, number, entry.metadata)
    return numbers


def _number(name: str, value: Any, kind: type) -> Any:
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, bool) or (not isinstance(value, str) and number != value):
        raise OptionError(name, f"must be {'a whole number' if kind is int else 'a number'}, got {value!r}.")
    return number


def _check_limits(name: str, value: float, limits: Mapping[str, Any]) -> None:
    low, high = limits["low"], limits["high"]
    if (low is not None and not value >= low) or (high is not None and not value <= high) or value == float("inf"):
        rule = f"finite and at least {low:g}" if high is None else f"between {low:g} and {high:g}"
        raise OptionError(name, f"must be {rule}, got {_shown(value)}.")


def _shown(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) or abs(value) < 10**300 else "a longer number"


def check_unchanged(before: Any, after: Any, fixed_by: tuple[FixedBy, ...], remedy: str) -> None:
    """Raise :class:`OptionError` if an option of one of these kinds differs between two dataclass instances.

    The remedy is the last sentence of the message.
    """
    owner: type = type(after)
    for name, entry in options_of(owner).items():
        old, new = getattr(before, name), getattr(after, name)
        if entry.metadata["fixed_by"] in fixed_by and old != new:
            raise OptionError(name, f"must stay {old!r}, got {new!r}. {remedy}")
