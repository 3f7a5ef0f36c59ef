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

from ..base.files import atomic_write, check_new_file
from ..base.progress import Bar
from ..config.defaults import CHOSEN
from ..config.option import options_of

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
    """Add a flag per field of the dataclasses to a command, which receives them as keywords; None if not given.

    The flag of a field is that of its annotation, or made from the declaration of an option. ``--help`` leaves out
    hidden flags. ``--help-all`` shows all, those of options in one panel per group.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
        annotations = get_type_hints(command, include_extras=True)
        flags = {p.name: (annotations[p.name], p.default) for p in own}
        groups: dict[str, str] = {}
        for owner in owners:
            hints = get_type_hints(owner, include_extras=True)
            for name, entry in options_of(owner).items():
                if entry.metadata:
                    flags[name] = _flag(name, entry, hints[name]), None
                    groups[name] = entry.metadata["group"]
                else:
                    flags[name] = hints[name], entry.default

        def show_all(ctx: typer.Context, asked: bool) -> None:
            if not asked:
                return
            for parameter in ctx.command.params:
                parameter.hidden = False  # type: ignore[attr-defined]
                parameter.rich_help_panel = groups.get(str(parameter.name))  # type: ignore[attr-defined]
            typer.echo(ctx.get_help())
            raise typer.Exit

        help_all = typer.Option("--help-all", help="Show all options and exit.", is_eager=True, callback=show_all)
        flags["help_all"] = Annotated[bool, help_all], False
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                for name, (annotation, default) in flags.items()
            ]
        )
        command.__annotations__ = {name: annotation for name, (annotation, _) in flags.items()}
        return command

    return decorate


def given(values: dict[str, Any], owner: type) -> dict[str, Any]:
    """Return those of a command's keywords that are fields of a dataclass and were given."""
    return {name: value for name, value in values.items() if name in options_of(owner) and value is not None}


def _flag(name: str, entry: Field[Any], declared: Any) -> Any:
    """Return the annotation of the flag of an option; a bool can be switched on and off."""
    flag, default, choices, metavar = "--" + name.replace("_", "-"), str(entry.default), "", None
    kind: Any = declared if declared in (bool, int, float) else str
    if declared is bool:
        flag, default = f"{flag}/--no-{flag[2:]}", "on" if entry.default else "off"
    elif get_origin(declared) is Literal:
        metavar, choices = "<choice>", f"{', '.join(get_args(declared))}; "
    elif get_origin(declared) is tuple:
        metavar, default = "<numbers>", ",".join(map(str, cast(Any, entry.default)))
    default = "by the images" if name in CHOSEN else default
    meaning = entry.metadata["help"] + (f" ({choices}default {default})" if default else "")
    hidden = not entry.metadata["common"]
    return Annotated[
        Optional[kind],  # noqa: UP045  (built at run time)
        typer.Option(flag, help=meaning, metavar=metavar, hidden=hidden, show_default=False),
    ]
