"""A progress bar for the console."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress, ProgressColumn


class Bar(Progress):
    """A bar that disappears when it is done, and is not shown in files and pipes."""

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        super().__init__(*columns, console=console, transient=True, disable=not console.is_interactive)

    def stop(self) -> None:
        """Remove the bar if it was shown; rich would print an empty line otherwise."""
        if self.live.is_started:
            super().stop()
