"""Watchdog of several processes: each increments a counter in the shared store and watches the counters of the others.

A thread increments the counter, so a process that computes for long stays alive. One that was killed or suspended stops
counting; one that ends by an error or by Ctrl-C reports it. A process that notices a loss names the lost worker and
ends itself, since its main thread may wait for the lost one forever.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from .messages import ERROR_GRACE_SECONDS, connect, key_of, write_torchelastic_error

BEAT = 1.0  # seconds between two increments
SILENCE = 12.0  # seconds without an increment after which a worker is lost
LOST, INTERRUPTED = 75, 130  # exit codes: try again; Ctrl-C

_SENTENCES = {
    "stopped": "was stopped by the user. Continue with --resume.",
    "failed": "has failed and reports its error. Correct it and continue with --resume.",
    "silent": "has died or is suspended, or its machine cannot be reached. Continue with --resume and any number of "
    "workers.",
}


@dataclass(frozen=True)
class Loss:
    """A lost worker: it was stopped by the user, failed with an error of its own, or is silent."""

    rank: int
    how: str = "silent"

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


class Watchdog:
    """Thread that counts for the worker of this rank and watches the ``count`` - 1 others, until :meth:`stop`."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count
        self.lost: Loss | None = None  # once noticed
        self._keeps_store = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # else torchrun does
        self._store = connect()
        self._stopped, self._noticed = threading.Event(), threading.Event()
        self._exits = True
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
        self._exits = False
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
                if not self._stopped.wait(2 * BEAT):  # this worker may be about to end too
                    self._notice(Loss(0))
                return

    def _loss_of(self, rank: int, silent: float = 0.0) -> Loss | None:
        """Return the loss that is in the store, or that of a worker which was silent for too many seconds."""
        for how in _SENTENCES:
            if self._store.add(key_of(how, rank), 0):
                return Loss(rank, how)
        return Loss(rank) if silent > SILENCE else None

    def _notice(self, loss: Loss) -> None:
        self.lost = loss
        self._noticed.set()
        with suppress(RuntimeError):
            self._store.add(key_of(loss.how, loss.rank), 1)  # so that all name the same worker
        # The main thread may report it better at its next exchange, or may have the same error to report.
        self._stopped.wait(2 * BEAT if loss.how == "silent" else ERROR_GRACE_SECONDS)
        if self._exits and not self._stopped.is_set():
            write_torchelastic_error(str(loss))
            sys.stderr.write(f"{'' if loss.how == 'stopped' else 'error: '}{loss}\n")
            sys.stderr.flush()
            os._exit(INTERRUPTED if loss.how == "stopped" else LOST)
