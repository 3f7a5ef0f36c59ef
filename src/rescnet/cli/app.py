"""The commands together; every error a person can cause is answered here, in one sentence and with an exit code."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from .bench import bench
from .compare import compare
from .datasets import datasets
from .evaluate import evaluate
from .export import export
from .info import info
from .predict import predict
from .report import report
from .reproduce import reproduce
from .train import train

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
EXIT_CODES = (
    "Exit codes: 0 done; 1 the machine failed, as with a full disk; 2 bad input, nothing written; 130 interrupted."
)
_WRONG_PATH = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)


class Answering(TyperGroup):
    """Runs a command and answers what goes wrong."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command asked for."""
        try:
            return super().invoke(ctx)
        except (ValueError, FloatingPointError, *_WRONG_PATH) as error:
            _say_error(str(error))
            raise typer.Exit(BAD_INPUT) from None
        except BrokenPipeError:  # the reader, as `head`, has had enough: Typer ends quietly
            raise
        except (OSError, MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "memory" not in str(error):
                raise  # of PyTorch's errors only a full memory is the machine's
            _say_error(f"the machine failed: {error or 'it is out of memory'}")
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            Console(stderr=True).print("interrupted", highlight=False)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="rescnet",
    cls=Answering,
    help="Deep image classifiers trained without back-propagation.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(asked: bool) -> None:
    if asked:
        from .. import __version__

        typer.echo(f"rescnet {__version__}")
        raise typer.Exit


@app.callback()
def rescnet(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Deep image classifiers trained without back-propagation."""


for command in (train, evaluate, predict, info, report, export, compare, datasets, bench, reproduce):
    app.command()(command)


def main() -> None:
    """Run the command line."""
    app(prog_name="rescnet")


def _say_error(text: str) -> None:
    if int(os.environ.get("RANK", "0")) > 0:  # one of several workers
        text = f"worker {os.environ['RANK']}: {text}"
    Console(stderr=True).print(f"[red]error:[/red] {escape(text)}", highlight=False, soft_wrap=True)
