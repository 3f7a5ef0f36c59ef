"""The commands together; every error a person can cause is answered here, in one sentence and with an exit code."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .bench import bench
from .compare import compare
from .datasets import datasets
from .errors import doubts_in_one_line, say_error, say_interrupted, told_by_first
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
    """Runs a command and answers what goes wrong; of several workers the first answers what all have in common."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read what comes before the command."""
        with told_by_first():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command asked for."""
        try:
            with told_by_first(), doubts_in_one_line():
                return super().invoke(ctx)
        except (ValueError, FloatingPointError, *_WRONG_PATH) as error:
            say_error(str(error))
            raise typer.Exit(BAD_INPUT) from None
        except BrokenPipeError:  # the reader, as `head`, has had enough: Typer ends quietly
            raise
        except (OSError, MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "memory" not in str(error):
                raise  # of PyTorch's errors only a full memory is the machine's
            lost = isinstance(error, ConnectionError)  # another worker
            say_error(f"the machine failed: {error or 'it is out of memory'}", lost)
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt as error:
            say_interrupted(error)
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
