"""Messages on stderr: one line per error.

Several workers mostly have the same error, or that another one has ended. The first of each machine prints it and ends;
torchrun then ends the others, which wait for that before they print theirs.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

BAD_INPUT = 2
GRACE_SECONDS = 5.0  # in which torchrun ends the other workers of a machine
UsageError: Any = typer.BadParameter.__mro__[1]  # the class of the click that Typer uses, its own or the package


class ReportedInterrupt(KeyboardInterrupt):
    """Ctrl-C whose message was printed already."""


def report_error(text: str) -> None:
    """Print an error; one of several workers is named, except rank 0."""
    _wait_for_first()
    rank = _rank()
    _print(f"[red]error:[/red] {escape(f'worker {rank}: {text}' if rank else text)}")


def report_interrupt(interrupt: KeyboardInterrupt) -> None:
    """Print that the user has stopped the run, unless it was printed; other ranks leave it to rank 0."""
    if not _rank() and not isinstance(interrupt, ReportedInterrupt):
        _print(escape(str(interrupt) or "interrupted"))


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Print the warnings of this library in one line, without the line of code, and on rank 0 only."""
    with warnings.catch_warnings():
        show_others: Any = warnings.showwarning

        def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
            if category.__module__.split(".")[0] != "rescnet":
                show_others(message, category, *where, **more)
            elif not _rank():
                _print(f"[yellow]warning:[/yellow] {escape(str(message))}")

        warnings.showwarning = show
        yield


@contextmanager
def first_reports_usage() -> Iterator[None]:
    """Of several workers, which have the same flags, the first prints an error of usage."""
    try:
        yield
    except UsageError:
        _wait_for_first()
        raise


def _print(text: str) -> None:
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)


def _wait_for_first() -> None:
    """Wait, unless this is the first worker of its machine, until torchrun would have ended this one."""
    if _rank() is not None and os.environ.get("LOCAL_RANK", "0") != "0":
        time.sleep(GRACE_SECONDS)


def _rank() -> int | None:
    """Return the rank of this process; None if it works alone."""
    return int(os.environ["RANK"]) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else None
