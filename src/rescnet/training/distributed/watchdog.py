"""Watchdog of several processes: each increments a counter in the shared store and watches the counters of the others.

A thread increments the counter, so a process that computes for long stays alive. One that was killed or suspended stops
counting; one that ends by an error or by Ctrl-C reports it. A process that notices a loss names the lost worker and
ends itself, since its main thread may wait for the lost one forever.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .messages import ERROR_GRACE_SECONDS, connect, key_of, write_torchelastic_error

BEAT = 1.0  # seconds between two increments
SILENCE = 12.0  # seconds without an increment after which a worker is lost
LOST, INTERRUPTED = 75, 130  # exit codes: try again; Ctrl-C

_SENTENCES = {
    "died": "has died. Continue with --resume; the number of workers may change.",
    "silent": "does not answer: it is suspended, or its machine cannot be reached. Continue with --resume.",
    "failed": "has failed and reports its error. Correct it and continue with --resume.",
    "stopped": "was stopped by the user. Continue with --resume.",
}


@dataclass(frozen=True)
class Loss:
    """A lost worker: it died, does not answer, failed with an error of its own, or was stopped by the user."""

    rank: int
    how: Literal["died", "silent", "failed", "stopped"] = "died"

    def __str__(self) -> str:
        return f"worker {self.rank} {_SENTENCES[self.how]}"

    @property
    def error(self) -> BaseException:
        """The exception that ends the other workers; Ctrl-C is no error."""
        if self.how == "stopped":
            return WorkerStopped(f"worker {self.rank} was stopped by the user")
        return WorkerLostError(str(self))


class WorkerLostError(ConnectionError):
    """Another worker has died, failed, or does not answer."""


class WorkerStopped(KeyboardInterrupt):
    """Another worker was stopped by Ctrl-C."""


@dataclass(frozen=True)
class WorkerProcess:
    """The process of a worker."""

    host: str
    pid: int
    started: str
    """Start time by the system's clock, which tells it from a later process with its number; "?" if unknown."""

    @staticmethod
    def of_this() -> WorkerProcess:
        """Return this process."""
        return WorkerProcess(socket.gethostname(), os.getpid(), _state_and_start(os.getpid())[1])

    @property
    def is_here(self) -> bool:
        """True if it can be looked up: on this machine, with a known start time."""
        return self.host == socket.gethostname() and self.started != "?"

    @property
    def lives(self) -> bool:
        """True if a process of this machine has not ended, e.g. is suspended."""
        state, started = _state_and_start(self.pid)
        return self.is_here and started == self.started and state not in "ZX?"

    def wake(self) -> None:
        """Continue a suspended process, so that the signal by which ``torchrun`` ends it takes effect."""
        with suppress(OSError):
            if self.lives:
                os.kill(self.pid, signal.SIGCONT)


def _state_and_start(pid: int) -> tuple[str, str]:
    """Return state and start time of a process of this machine; question marks if they are unknown."""
    try:
        facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return facts[0], facts[19]
    except (OSError, IndexError):
        return "?", "?"


class Watchdog:
    """Thread that counts for the worker of this rank and watches the ``count`` - 1 others, until :meth:`stop`."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count
        self.lost: Loss | None = None  # once noticed
        self._keeps_store = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # else torchrun does
        self._store = connect()
        self._stopped, self._noticed = threading.Event(), threading.Event()
        self._exits = True
        self._broken = False  # an exchange has failed, as it does if the other process has ended
        self._processes: dict[int, WorkerProcess] = {}
        mine = WorkerProcess.of_this()
        self._store.set(key_of("process", rank), f"{mine.host} {mine.pid} {mine.started}")
        self._thread = threading.Thread(target=self._run, name="rescnet-watchdog", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Report that this worker has finished; the one that keeps the store waits for the others."""
        with suppress(RuntimeError):  # the keeper of the store may have left already
            self._store.add(key_of("left", self.rank), 1)
        end = time.monotonic() + ERROR_GRACE_SECONDS
        while self._keeps_store and time.monotonic() < end:
            if all(self._store.add(key_of("left", rank), 0) for rank in range(self.count)):
                return
            time.sleep(BEAT / 10)

    def give_up(self, error: BaseException) -> None:
        """Report that this worker ends by an error, which it prints itself, or by Ctrl-C."""
        how = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
        with suppress(RuntimeError):  # the store may be what failed
            self._store.add(key_of(how, self.rank), 1)

    def wait_before_exit(self) -> None:
        """Keep the store open, if this worker keeps it, until the others have read who was lost."""
        if self._keeps_store:
            time.sleep(2 * BEAT)

    def exit_after_grace(self, stopped: bool) -> None:
        """Exit by a timer: an exchange with a lost worker on a GPU, or with a suspended one, never ends."""
        end = threading.Timer(2 * ERROR_GRACE_SECONDS, os._exit, (INTERRUPTED if stopped else LOST,))
        end.daemon = True
        end.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        self._thread.join(timeout=2 * BEAT)

    def raise_loss(self) -> None:
        """Raise the error of a lost worker, if one was noticed."""
        if self.lost:
            self._exits = False
            raise self.lost.error

    def wait_for_loss(self) -> Loss | None:
        """Wait until a lost worker is noticed and return it; None if all keep counting.

        From now on the caller ends the process.
        """
        self._exits, self._broken = False, True
        end = time.monotonic() + SILENCE + 5 * BEAT
        with suppress(RuntimeError):  # the store is closed: the thread notices
            while not self._noticed.wait(BEAT / 10) and time.monotonic() < end:
                for rank in range(self.count):
                    if rank != self.rank and (loss := self._loss_of(rank)):
                        return loss
        self._noticed.wait(max(0.0, end - time.monotonic()))
        return self.lost

    def _run(self) -> None:
        """Count and watch, once per beat."""
        seen = dict.fromkeys((rank for rank in range(self.count) if rank != self.rank), (0, time.monotonic()))
        while not self._stopped.wait(BEAT):
            try:
                self._store.add(key_of("beat", self.rank), 1)
                for rank, (beats, _) in list(seen.items()):
                    self._look_up(rank)
                    now = self._store.add(key_of("beat", rank), 0)
                    if now != beats:
                        seen[rank] = now, time.monotonic()
                    if self._store.add(key_of("left", rank), 0):
                        del seen[rank]
                        continue
                    if loss := self._loss_of(rank, time.monotonic() - seen[rank][1]):
                        self._notice(loss)
                        return
            except RuntimeError:  # the store is closed: the worker that keeps it is lost
                if not self._stopped.wait(2 * BEAT):  # a process that is being killed lives for a moment
                    self._notice(self._silent(0))
                return

    def _look_up(self, rank: int) -> None:
        """Remember the process of a worker, once it is in the store."""
        key = key_of("process", rank)
        if rank not in self._processes and self._store.check([key]):
            host, pid, started = self._store.get(key).decode().rsplit(" ", 2)
            self._processes[rank] = WorkerProcess(host, int(pid), started)

    def _silent(self, rank: int) -> Loss:
        """Return the loss of a worker that no longer counts: it has died, or does not answer."""
        process = self._processes.get(rank)
        if process is not None and process.is_here:
            return Loss(rank, "silent" if process.lives else "died")
        return Loss(rank, "died" if process is None or self._broken else "silent")

    def _loss_of(self, rank: int, silent: float = 0.0) -> Loss | None:
        if self._store.add(key_of("stopped", rank), 0):
            return Loss(rank, "stopped")
        if self._store.add(key_of("failed", rank), 0):
            return Loss(rank, "failed")
        if self._store.add(key_of("silent", rank), 0):
            return Loss(rank, "silent")
        if self._store.add(key_of("died", rank), 0):
            return Loss(rank)
        return self._silent(rank) if silent > SILENCE else None

    def _notice(self, loss: Loss) -> None:
        self.lost = loss
        self._noticed.set()
        with suppress(RuntimeError):
            self._store.add(key_of(loss.how, loss.rank), 1)  # so that all name the same worker
        if loss.how == "silent" and loss.rank in self._processes:
            self._processes[loss.rank].wake()
        # The main thread may report it better at its next exchange, or may have the same error to report.
        self._stopped.wait(2 * BEAT if loss.how in ("died", "silent") else ERROR_GRACE_SECONDS)
        if self._exits and not self._stopped.is_set():
            write_torchelastic_error(str(loss))
            sys.stderr.write(f"{'' if loss.how == 'stopped' else 'error: '}{loss}\n")
            sys.stderr.flush()
            os._exit(INTERRUPTED if loss.how == "stopped" else LOST)
