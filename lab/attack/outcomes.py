"""Outcomes of an attack: judge one, count them all, print progress."""

from __future__ import annotations

import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CLEAN, SAME, OTHER = "clean error", "same answer", "another valid answer"
WRONG, TRACEBACK, HANG = "wrong answer", "traceback", "hang"
FAILURES = (WRONG, TRACEBACK, HANG)
HANG_SECONDS = 20.0
MEMORY = 4 * 2**30  # bytes that an attack may allocate
LONGEST_MESSAGE = 2000


class TooLongError(BaseException):
    """A reader that did not return in time."""


class Tally:
    """Outcomes by kind of attack, and the first failures in full.

    Parameters
    ----------
    count : int
        Attacks wanted.
    seconds : float, optional
        Time limit.
    quiet : bool
        Print nothing.
    """

    def __init__(self, count: int, seconds: float | None = None, quiet: bool = False) -> None:
        self.count, self.quiet = count, quiet
        self.start = time.monotonic()
        self.end = self.start + seconds if seconds else float("inf")
        self.kinds: dict[str, Counter[str]] = {}
        self.failures: list[str] = []
        self._shown = self.start

    def add(self, kind: str, outcome: str, detail: str = "") -> None:
        """Count one outcome; keep the details of a failure."""
        self.kinds.setdefault(kind, Counter())[outcome] += 1
        if outcome in FAILURES:
            self.failures.append(f"{kind}: {outcome}: {detail}")
            if not self.quiet and len(self.failures) <= 10:
                print(self.failures[-1], flush=True)
        if not self.quiet and time.monotonic() > self._shown + 10:
            self._shown = time.monotonic()
            print(f"{self.done:,} of {self.count:,} in {self._shown - self.start:.0f} s: {self.outcomes}", flush=True)

    @property
    def done(self) -> int:
        """Attacks so far."""
        return sum(sum(found.values()) for found in self.kinds.values())

    @property
    def goes_on(self) -> bool:
        """True until the wanted number is reached or the time is up."""
        return self.done < self.count and time.monotonic() < self.end

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of attacks by outcome; failures are listed if there are none too."""
        total = sum(self.kinds.values(), Counter())
        return {name: total[name] for name in (CLEAN, SAME, OTHER, *FAILURES)}

    def result(self) -> dict[str, Any]:
        """Return the figures for the record."""
        return {
            "attacks": self.done,
            "outcomes": self.outcomes,
            "kinds": {kind: dict(found) for kind, found in sorted(self.kinds.items())},
            "seconds": round(time.monotonic() - self.start, 1),
        }


def judge(
    read: Callable[[], object], wanted: object, may_differ: bool, clean: tuple[type[Exception], ...]
) -> tuple[str, str]:
    """Return the outcome of reading an altered file, and details of a failure.

    Parameters
    ----------
    read : callable
        Returns the answer; its errors must be of the types ``clean``, with a text of one line.
    wanted : object
        Answer of the unaltered file.
    may_differ : bool
        True if another answer is valid: the file has no checksum, or the attacker has computed a new one.
    """
    start = time.monotonic()
    try:
        with _time_limit(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = read()
    except TooLongError:
        return HANG, traceback.format_exc()
    except clean as error:
        text = str(error)
        good = text.strip() and "\n" not in text and len(text) < LONGEST_MESSAGE
        return (CLEAN, "") if good else (TRACEBACK, f"not one sentence: {text[:300]!r}")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return TRACEBACK, traceback.format_exc()
    if time.monotonic() > start + HANG_SECONDS:
        return HANG, "returned too late"
    if found == wanted:
        return SAME, ""
    return (OTHER, "") if may_differ else (WRONG, "the answer differs")


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let a forged size fail to be allocated instead of filling the machine's memory."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
