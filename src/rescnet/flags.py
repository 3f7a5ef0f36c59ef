"""Command-line flags made from the configuration's own declarations: an option is declared once, in ``config.py``."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, get_args, get_origin, get_type_hints

import typer

from .config import ComputeOptions, NetworkConfig


def with_flags(*owners: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command a flag for each field of the dataclasses, passed to it as keywords; None where not given."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        hints = get_type_hints(command, include_extras=True)
        parameters = [p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        for owner in owners:
            parameters += [_flag(owner, entry) for entry in dataclasses.fields(owner)]

        def run(**values: Any) -> Any:
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


def _flag(owner: type, entry: dataclasses.Field[Any]) -> inspect.Parameter:
    declared = get_type_hints(owner)[entry.name]
    panel = {NetworkConfig: "The network", ComputeOptions: "The machine"}.get(owner, "Options")
    flag = "--" + entry.name.replace("_", "-")
    kind: Any = str
    words: dict[str, Any] = {"help": entry.metadata["help"], "rich_help_panel": panel, "show_default": False}
    default: Any = entry.default
    if declared is bool:
        kind, flag = bool, f"{flag}/--no-{flag[2:]}"
    elif declared in (int, float):
        kind = declared
    elif get_origin(declared) is Literal:
        words["metavar"] = "|".join(get_args(declared))
    elif get_origin(declared) is tuple:
        words["metavar"], default = "4,2,1", ",".join(map(str, default))
    words["help"] += f" (default {str(default).lower() if declared is bool else default})"
    annotation = Annotated[Optional[kind], typer.Option(flag, **words)]  # noqa: UP045  (built at run time)
    return inspect.Parameter(entry.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
