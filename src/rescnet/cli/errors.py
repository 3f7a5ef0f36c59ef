"""Messages on stderr: one line per error, printed by rank 0 where all ranks have the same error."""

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
RANK0_GRACE_SECONDS = 3.0  # for rank 0 to print an error of usage before another rank exits
UsageError: Any = typer.BadParameter.__mro__[1]  # the class of the click that Typer uses, its own or the package


class ReportedInterrupt(KeyboardInterrupt):
    """Ctrl-C whose message was printed already."""


def report_error(text: str, from_other_rank: bool = False) -> None:
    """Print an error; one that says only that another rank has ended is left out if rank 0 has printed one."""
    rank = _rank()
    if rank is None:
        _print(f"[red]error:[/red] {escape(text)}")
        return
    from ..training.distributed.messages import publish_rank0_message, rank0_message, write_torchelastic_error

    printed = rank0_message() if rank else None
    if printed is not None and (from_other_rank or printed == text):
        return
    message = f"worker {rank}: {text}" if rank else text
    write_torchelastic_error(message)
    _print(f"[red]error:[/red] {escape(message)}")
    if not rank:
        publish_rank0_message(text)


def report_interrupt(interrupt: KeyboardInterrupt) -> None:
    """Print that the user has stopped the run, unless it was printed; other ranks leave it to rank 0."""
    text, rank = str(interrupt) or "interrupted", _rank()
    if rank:
        from ..training.distributed.messages import rank0_message

        if rank0_message():
            return
        text = f"worker {rank} was stopped by the user"
    if rank or not isinstance(interrupt, ReportedInterrupt):
        _print(escape(text))
    if rank is not None:
        from ..training.distributed.messages import publish_rank0_message, write_torchelastic_error

        write_torchelastic_error(text)
        if not rank:
            publish_rank0_message(text)


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
def rank0_reports_usage() -> Iterator[None]:
    """Print errors of usage on rank 0 only: all ranks have the same flags."""
    try:
        yield
    except UsageError as error:
        rank = _rank()
        if rank is None:
            raise
        from ..training.distributed.messages import write_torchelastic_error

        if rank:
            time.sleep(RANK0_GRACE_SECONDS)
        write_torchelastic_error(error.format_message())
        if not rank:
            raise
        raise typer.Exit(BAD_INPUT) from None


def _print(text: str) -> None:
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)


def _rank() -> int | None:
    """Return the rank of this process; None if it works alone."""
    return int(os.environ["RANK"]) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else None
