"""Parts that commands share: arguments, flags of the options in :mod:`rescnet.config`, lines, bars and tables."""

from __future__ import annotations

import inspect
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import Field
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, cast, get_args, get_origin, get_type_hints

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..config.defaults import CHOSEN
from ..config.option import declared_types, options_of
from ..files import atomic_write, check_new_file
from ..progress import Bar

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of the model.")]
Source = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help="Public data set (mnist, cifar10, ...), image folder or .npz file; cifar10:50 uses the first 50 training "
        "images of each class. Default: digits.",
    ),
]
OtherSource = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE", help="Public data set, image folder or .npz file. Default: the images it was trained on."
    ),
]
Layers = Annotated[
    int | None,
    typer.Option(
        help="Use the first n layers. Default: the best validation depth if trained with --patience, else all."
    ),
]
Views = Annotated[
    str | None,
    typer.Option(
        help="Views that a prediction is averaged over, e.g. 'flip + shift 1'. '' is the image alone. Default: those "
        "of the model."
    ),
]
Root = Annotated[Path | None, typer.Option(help="Folder of the public data sets.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...; auto uses a GPU if there is one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]

MANY_FILES = 300  # from here on reading them shows its progress
_NOT = "no_"  # prefix of the parameter of a flag that switches an option off


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print a line with markup; it is not wrapped, and numbers have no colour."""
    console.print(text, style=style, highlight=False, soft_wrap=True)


def plain_table(*titles: str, gap: int = 3, **settings: Any) -> Table:
    """Return a table without lines; all columns but the first are aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), **settings)
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    return table


@contextmanager
def progress_bar(title: str, many: int = MANY_FILES) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of the amount done and the total, which shows a bar on stderr if the total is ``many``."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Bar(Console(stderr=True), *columns)
    task = bar.add_task(title, total=None)

    def show(done: int, total: int) -> None:
        if total >= many:
            bar.start()
            bar.update(task, completed=done, total=total)
        if done == total:
            bar.stop()

    try:
        yield show
    finally:
        bar.stop()


def write_json(file: Path, content: Any) -> None:
    """Write a file of JSON; a reader sees the old file or the complete new one."""
    with atomic_write(file) as path:
        path.write_text(json.dumps(content, indent=1) + "\n")


def check_out(out: Path | None, overwrite: bool, *endings: str) -> None:
    """Raise ValueError if an output file is given that cannot be written."""
    if out is not None:
        check_new_file(out, overwrite, *endings, how="--overwrite")


def command_line() -> str:
    """Return the command line of this process."""
    return shlex.join(["rescnet", *sys.argv[1:]])


def with_flags(*owners: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a flag per option of the dataclasses to a command, which receives them as keywords; None if not given.

    ``--help`` shows the command's own options that are not hidden, and the common ones of the dataclasses.
    ``--help-all`` shows all, in one panel per group.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        hints = get_type_hints(command, include_extras=True)
        parameters = [p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        declared = [(owner, name, entry) for owner in owners for name, entry in options_of(owner).items()]
        for owner, name, entry in declared:
            parameters += _flags(name, entry, declared_types(owner)[name])
        # Of the two flags of a bool, the help shows the one that changes the default.
        panels = {(_NOT if e.default is True else "") + name: e.metadata["group"] for _, name, e in declared}
        shown = panels | {p.name: None for p in own}
        parameters.append(_help_all(shown))

        def run(**values: Any) -> Any:
            values.pop("help_all", None)
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
    """Return those of a command's keywords that are options of a dataclass and were given."""
    return {name: value for name, value in values.items() if name in options_of(owner) and value is not None}


def _flags(name: str, entry: Field[Any], declared: Any) -> list[inspect.Parameter]:
    """Return the flag of an option; two if it is a bool."""
    meaning, default = entry.metadata["help"], cast(Any, entry.default)
    flag, hidden = "--" + name.replace("_", "-"), not entry.metadata["common"]
    chosen = name in CHOSEN
    words: dict[str, Any] = {"show_default": False}
    if declared is bool:
        words["help"] = f"Switch off{'' if chosen else ' the default'}: {meaning}" if default else meaning
        words["help"] += " (default by the images)" if chosen else "" if default else " Off by default."
        return [
            _parameter(name, bool, flag, **words, hidden=hidden or default),
            _parameter(f"{_NOT}{name}", bool, f"--no-{flag[2:]}", **words, hidden=hidden or not default),
        ]
    kind: Any = declared if declared in (int, float) else str
    choices, shown = "", str(default)
    if get_origin(declared) is Literal:
        words["metavar"], choices = "<choice>", f"{', '.join(get_args(declared))}; "
    elif get_origin(declared) is tuple:
        words["metavar"], shown = "<numbers>", ",".join(map(str, default))
    shown = "by the images" if chosen else shown
    values = f" ({choices}default {shown})" if shown else ""
    return [_parameter(name, kind, flag, **words, help=f"{meaning}{values}", hidden=hidden)]


def _help_all(shown: dict[str, str | None]) -> inspect.Parameter:
    """Return the flag that prints the help of these parameters, each in the panel of its group."""

    def show(ctx: typer.Context, asked: bool) -> None:
        if not asked:
            return
        for parameter in ctx.command.params:
            if parameter.name in shown:
                parameter.hidden = False  # type: ignore[attr-defined]
                parameter.rich_help_panel = shown[parameter.name]  # type: ignore[attr-defined]
        typer.echo(ctx.get_help())
        raise typer.Exit

    return _parameter("help_all", bool, "--help-all", help="Show all options and exit.", is_eager=True, callback=show)


def _parameter(name: str, kind: Any, flag: str, **words: Any) -> inspect.Parameter:
    annotation = Annotated[Optional[kind], typer.Option(flag, **words)]  # noqa: UP045  (built at run time)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
