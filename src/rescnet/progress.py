"""A progress bar for the console."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress, ProgressColumn


class Bar(Progress):
    """A bar that goes away when it is done, and leaves no trace in files and pipes."""

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        super().__init__(*columns, console=console, transient=True, disable=not console.is_interactive)

    def stop(self) -> None:
        """Take the bar away, if it was ever shown: rich would print an empty line."""
        if self.live.is_started:
            super().stop()
