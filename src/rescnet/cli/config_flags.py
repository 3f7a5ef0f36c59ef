"""Command-line flags made from the configuration's own declarations: an option is declared once, in ``config.py``."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, get_args, get_origin, get_type_hints

import typer

_NOT = "no_"  # before the name of a truth value: the parameter of the flag that denies it


def with_flags(*owners: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command a flag for each field of the dataclasses, passed to it as keywords; None where not given."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        hints = get_type_hints(command, include_extras=True)
        parameters = [p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        for owner in owners:
            for entry in dataclasses.fields(owner):
                parameters += _flags(owner, entry)

        def run(**values: Any) -> Any:
            for name in [name for name in values if name.startswith(_NOT)]:
                if values.pop(name):
                    values[name.removeprefix(_NOT)] = False
            return command(**values)

        run.__doc__, run.__name__ = command.__doc__, command.__name__
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def given(values: dict[str, Any], owner: type) -> dict[str, Any]:
    """Return those of a command's keywords that are fields of a dataclass and were given."""
    names = {entry.name for entry in dataclasses.fields(owner)}
    return {name: value for name, value in values.items() if name in names and value is not None}


def _flags(owner: type, entry: dataclasses.Field[Any]) -> list[inspect.Parameter]:
    """Return the flag of a field; two for a truth value, of which the help shows the one that is not the default."""
    declared, meaning = get_type_hints(owner)[entry.name], entry.metadata["help"]
    default: Any = entry.default
    panel = entry.metadata["group"]
    flag = "--" + entry.name.replace("_", "-")
    if declared is bool:
        # Only the flag that changes something is shown: the text says what that flag does, and what is done without it.
        shown = f"switch off what is on by default: {meaning}" if default else f"{meaning} (off by default)"
        words = {"help": shown, "rich_help_panel": panel, "show_default": False}
        return [
            _parameter(entry.name, bool, flag, **words, hidden=default),
            _parameter(f"{_NOT}{entry.name}", bool, f"--no-{flag[2:]}", **words, hidden=not default),
        ]
    kind: Any = declared if declared in (int, float) else str
    words, choices = {"rich_help_panel": panel, "show_default": False}, ""
    if get_origin(declared) is Literal:
        words["metavar"], choices = "<choice>", f"{', '.join(get_args(declared))}; "
    elif get_origin(declared) is tuple:
        words["metavar"] = default = ",".join(map(str, default))
    return [_parameter(entry.name, kind, flag, **words, help=f"{meaning} ({choices}default {default})")]


def _parameter(name: str, kind: Any, flag: str, **words: Any) -> inspect.Parameter:
    annotation = Annotated[Optional[kind], typer.Option(flag, **words)]  # noqa: UP045  (built at run time)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
