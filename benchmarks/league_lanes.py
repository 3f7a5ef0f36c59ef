"""Processes that measure members of a league side by side: started, watched, stopped when their time is over.

A lane is one process with one member, or with several that follow each other: on a GPU the libraries then load once. A
member whose process dies, or takes too long, gets an error, and those behind it a new process.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POLL = 0.2  # seconds
BROKEN = (
    "CUDA error",
    "CUBLAS_STATUS",
    "cuDNN error",
    "CUSOLVER_STATUS",
    "device-side assert",
    "illegal memory access",
)
"""Errors after which a GPU does nothing more for the process."""


@dataclass(frozen=True)
class Task:
    """What lanes do.

    Attributes
    ----------
    command : callable
        From members and the file for their rows to a command line.
    folder : Path
        For rows and logs.
    threads : callable
        From members to the threads their process may use.
    heard : callable
        Hears of each member that is done: its name, its row or None, an error or nothing.
    """

    command: Callable[[list[str], Path], list[str]]
    folder: Path
    threads: Callable[[list[str]], int]
    heard: Callable[[str, dict[str, Any] | None, str], None]


@dataclass
class Lane:
    """A process and the members it has still to measure."""

    task: Task
    members: list[str]
    number: int
    process: subprocess.Popen[bytes] = field(init=False)
    since: float = field(init=False)

    def __post_init__(self) -> None:
        self.file, self.log = (self.task.folder / f"lane-{self.number}.{kind}" for kind in ("rows", "log"))
        self.file.unlink(missing_ok=True)
        threads = str(self.task.threads(self.members))
        environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        source = str(Path(__file__).resolve().parent.parent / "src")
        environment["PYTHONPATH"] = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.task.command(self.members, self.file), stdout=log, stderr=subprocess.STDOUT, env=environment
            )
        self.since = time.monotonic()

    def take_rows(self) -> bool:
        """Tell of rows that are new; return whether one says that the process is of no more use."""
        try:
            rows = {row["model"]: row for row in json.loads(self.file.read_text())}
        except (OSError, ValueError):  # not there yet, or half written
            return False
        for member in [member for member in self.members if member in rows]:
            self.members.remove(member)
            self.since = time.monotonic()
            self.task.heard(member, rows[member], "")
            if any(sign in rows[member]["error"] for sign in BROKEN):
                return True
        return False

    def last_words(self) -> str:
        """Return the last line the process wrote, or how it ended."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"its process ended with {self.process.returncode}"

    def stop(self) -> None:
        """End the process."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def run_lanes(
    task: Task, members: list[str], at_once: int, member_seconds: float, seconds: float, together: bool = False
) -> None:
    """Measure members, so many at once, until all are done or the time is over.

    Parameters
    ----------
    member_seconds : float
        Of one member, the start of its process included.
    seconds : float
        Of all; members that are not done then have neither row nor error.
    together : bool
        Give a lane all members that wait, instead of one.
    """
    waiting, lanes, number, deadline = list(members), list[Lane](), 0, time.monotonic() + seconds
    try:
        while (waiting or lanes) and time.monotonic() < deadline:
            while waiting and len(lanes) < at_once:
                count = len(waiting) if together else 1
                lanes.append(Lane(task, waiting[:count], number))
                waiting, number = waiting[count:], number + 1
            time.sleep(POLL)
            for lane in list(lanes):
                ended = lane.process.poll() is not None
                over = time.monotonic() - lane.since > member_seconds
                broken = lane.take_rows()
                if not (ended or over or broken):
                    continue
                lane.stop()
                lanes.remove(lane)
                if lane.members and not broken:
                    words = lane.last_words() if ended else f"it was stopped after {member_seconds:g} seconds"
                    task.heard(lane.members.pop(0), None, words)
                waiting = lane.members + waiting
    finally:
        for lane in lanes:
            lane.take_rows()
            lane.stop()
