"""The command line: commands, imported when they are used, that parse, call the library and print."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from . import clock  # noqa: F401, it starts here
from .errors import BAD_INPUT, first_reports_usage, one_line_warnings, report_error, report_interrupt

__all__ = ["app", "main"]

COMMANDS = {
    "train": "Train a network.",
    "check": "List the problems of an image folder.",
    "evaluate": "Measure the accuracy of a model.",
    "predict": "Predict the classes of image files.",
    "explain": "Explain the prediction of one image file.",
    "info": "Show the architecture, size, accuracy and origin of a model.",
    "report": "Write an HTML page about a model.",
    "playground": "Open a page that trains a network while you draw.",
    "export": "Write a model as ONNX or as a torch.export program.",
    "compare": "Train several models on the same images and compare them.",
    "curve": "Measure accuracy over the number of training images.",
    "datasets": "List the public data sets, or fetch one.",
}
"""Names of the commands and their line in ``rescnet --help``; each is a function of that name."""

_SHARED_MODULES = {"report": "export", "curve": "compare"}  # the other commands are in a module of their name

FAILED, INTERRUPTED = 1, 130
EXIT_CODES = (
    "Exit codes: 0 success; 1 failure of the machine, e.g. a full disk, or of rescnet check, or files that rescnet "
    "predict skipped; 2 bad input, nothing written; 130 interrupted."
)
_WRONG_PATH = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)


class LazyCommand(TyperCommand):
    """A command whose module is imported when it is called."""

    def load(self) -> Any:
        """Import the module and return the command itself."""
        name = str(self.name)
        module = import_module(f".{_SHARED_MODULES.get(name, name)}", __package__)
        single = typer.Typer(add_completion=False, rich_markup_mode="rich")
        single.command(name)(getattr(module, name))
        return typer.main.get_command(single)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments of the command itself."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


class Commands(TyperGroup):
    """The group of all commands; it turns errors into one line on stderr and an exit code."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, meaning in COMMANDS.items():
            self.add_command(LazyCommand(name, help=meaning), name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the flags before the command."""
        with first_reports_usage():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with first_reports_usage(), one_line_warnings():
                return super().invoke(ctx)
        except (ValueError, FloatingPointError, *_WRONG_PATH) as error:
            report_error(str(error))
            raise typer.Exit(BAD_INPUT) from None
        except BrokenPipeError:  # the reader, e.g. `head`, has closed the pipe: Typer ends quietly
            raise
        except (OSError, MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "memory" not in str(error):
                raise  # of PyTorch's errors only lack of memory is the machine's
            report_error(f"the machine failed: {error or 'it is out of memory'}")
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt as error:
            report_interrupt(error)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="rescnet",
    cls=Commands,
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(asked: bool) -> None:
    if asked:
        from ..base.version import __version__

        typer.echo(f"rescnet {__version__}")
        raise typer.Exit


@app.callback()
def rescnet(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Deep image classifiers trained without back-propagation."""


def main() -> None:
    """Run the command line; characters that the terminal cannot show are escaped, like in messages on stderr."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    app(prog_name="rescnet")
