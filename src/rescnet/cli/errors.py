"""One sentence on stderr for what goes wrong; of several workers that end for the same reason the first says it."""

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
FIRST_ENDS = 3.0  # seconds the first worker has to say what all have to say
UsageError: Any = typer.BadParameter.__mro__[1]  # of the click that Typer uses, its own or the package


class AnsweredInterrupt(KeyboardInterrupt):
    """Ctrl-C, of which all was said."""


def say_error(text: str, of_another: bool = False) -> None:
    """Say what went wrong; a worker keeps silent where the first one says the same, or it is the end of another."""
    worker = _worker()
    if worker is None:
        _print(f"[red]error:[/red] {escape(text)}")
        return
    from ..training.distributed.messages import publish_rank0_message, rank0_message, write_torchelastic_error

    said = rank0_message() if worker else None
    if said is not None and (of_another or said == text):
        return
    told = f"worker {worker}: {text}" if worker else text
    write_torchelastic_error(told)
    _print(f"[red]error:[/red] {escape(told)}")
    if not worker:
        publish_rank0_message(text)


def say_interrupted(interrupt: KeyboardInterrupt) -> None:
    """Say that a person has ended the run, unless that was said; the other workers leave it to the first."""
    text, worker = str(interrupt) or "interrupted", _worker()
    if worker:
        from ..training.distributed.messages import rank0_message

        if rank0_message():
            return
        text = f"worker {worker} was stopped by the user"
    if worker or not isinstance(interrupt, AnsweredInterrupt):
        _print(escape(text))
    if worker is not None:
        from ..training.distributed.messages import publish_rank0_message, write_torchelastic_error

        write_torchelastic_error(text)
        if not worker:
            publish_rank0_message(text)


@contextmanager
def doubts_in_one_line() -> Iterator[None]:
    """Print the library's own warnings as errors are printed, without the line of code; the first worker alone does."""
    with warnings.catch_warnings():
        show_others: Any = warnings.showwarning

        def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
            from ..network.inputs import InputWarning  # it loads PyTorch

            if not issubclass(category, InputWarning):
                show_others(message, category, *where, **more)
            elif not _worker():
                _print(f"[yellow]warning:[/yellow] {escape(str(message))}")

        warnings.showwarning = show
        yield


@contextmanager
def told_by_first() -> Iterator[None]:
    """Let the first of several workers alone tell of a flag that is wrong: all were given the same ones."""
    try:
        yield
    except UsageError as error:
        worker = _worker()
        if worker is None:
            raise
        from ..training.distributed.messages import write_torchelastic_error

        if worker:
            time.sleep(FIRST_ENDS)
        write_torchelastic_error(error.format_message())
        if not worker:
            raise
        raise typer.Exit(BAD_INPUT) from None


def _print(text: str) -> None:
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)


def _worker() -> int | None:
    """Return which of several workers this is, from 0; None if it works alone."""
    return int(os.environ["RANK"]) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else None
