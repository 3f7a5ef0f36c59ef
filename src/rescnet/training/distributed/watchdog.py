"""Who is still there: each worker counts up in the store all share, and watches the others count.

A worker that computes for long goes on counting, in a thread of its own; one that was killed does not, and one that
ends by an error or by Ctrl-C says so. Whoever notices says which worker is lost and ends its own process, since the
main thread may be waiting for the lost one for ever.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import torch.distributed as dist

BEAT = 1.0  # seconds from one count to the next
SILENCE = 12.0  # seconds without a count after which a worker is lost
OWN_WORDS = 5.0  # seconds a worker has to come upon an error itself that another one has told of
LOST, INTERRUPTED = 75, 130  # exit codes: try again; Ctrl-C

_SENTENCES = {
    "died": "has died, so the run ends here: go on with --resume, with as many workers as there are.",
    "failed": "has ended with an error, which it tells, so the run ends here: mend it, and go on with --resume.",
    "stopped": "was stopped by the user, so the run ends here: go on with --resume.",
}


@dataclass(frozen=True)
class Loss:
    """A worker that is no longer there, and why: it died, it failed and tells why, or the user stopped it."""

    rank: int
    how: Literal["died", "failed", "stopped"] = "died"

    def __str__(self) -> str:
        return f"worker {self.rank} {_SENTENCES[self.how]}"

    @property
    def error(self) -> BaseException:
        """What ends the others: Ctrl-C is no error."""
        if self.how == "stopped":
            return WorkerStopped(f"worker {self.rank} was stopped by the user")
        return WorkerLostError(str(self))


class WorkerLostError(ConnectionError):
    """Another worker has died, or has given up."""


class WorkerStopped(KeyboardInterrupt):
    """Another worker was stopped by Ctrl-C."""


def connect() -> Any:
    """Return a connection of its own to the store ``torchrun`` tells."""
    return dist.TCPStore(  # type: ignore[attr-defined]
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=timedelta(seconds=20)
    )


def key_of(name: str, rank: int) -> str:
    """Return a key of the store; torchrun may start workers again beside a store that remembers the last ones."""
    return f"rescnet/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{name}/{rank}"


class Heartbeat:
    """Counts, and watches the others, until :meth:`stop`.

    Parameters
    ----------
    rank, count : int
        Of this worker, and of all.
    store : torch.distributed.Store, optional
        By default a connection of its own to the one ``torchrun`` tells.
    """

    def __init__(self, rank: int, count: int, store: Any = None) -> None:
        self.rank, self.count = rank, count
        self.lost: Loss | None = None
        self._keeps_store = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # torchrun does else
        self._store = store or connect()
        self._stopped, self._noticed = threading.Event(), threading.Event()
        self._exits = True
        self._thread = threading.Thread(target=self._run, name="rescnet-heartbeat", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Tell the others that this worker is done, not dead; who keeps the store waits for them."""
        with suppress(RuntimeError):  # who keeps the store may have left already
            self._store.add(key_of("left", self.rank), 1)
        end = time.monotonic() + OWN_WORDS
        while self._keeps_store and time.monotonic() < end:
            if all(self._store.add(key_of("left", rank), 0) for rank in range(self.count)):
                return
            time.sleep(BEAT / 10)

    def give_up(self, error: BaseException) -> None:
        """Tell the others not to wait: this worker ends because of an error, which it tells itself, or of Ctrl-C."""
        how = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
        with suppress(RuntimeError):  # the store may be what failed
            self._store.add(key_of(how, self.rank), 1)

    def linger(self) -> None:
        """Wait, if this worker keeps the store, until the others have seen there who was lost: it was not this one."""
        if self._keeps_store:
            time.sleep(2 * BEAT)

    def end_anyway(self, stopped: bool) -> None:
        """End the process if it has not in a while: on a GPU an exchange with a lost worker is never done."""
        end = threading.Timer(2 * OWN_WORDS, os._exit, (INTERRUPTED if stopped else LOST,))
        end.daemon = True
        end.start()

    def stop(self) -> None:
        """Stop counting."""
        self._stopped.set()
        self._thread.join(timeout=2 * BEAT)

    def raise_loss(self) -> None:
        """Raise an error if a lost worker was noticed."""
        if self.lost:
            self._exits = False
            raise self.lost.error

    def wait_for_a_loss(self) -> Loss | None:
        """Wait until a lost worker is noticed, and return which; None if all go on counting.

        From now on it is the caller who ends the process.
        """
        self._exits = False
        end = time.monotonic() + SILENCE + 5 * BEAT
        with suppress(RuntimeError):  # the store is gone: the other thread notices
            while not self._noticed.wait(BEAT / 10) and time.monotonic() < end:
                for rank in range(self.count):
                    if rank != self.rank and (told := self._loss_of(rank)):
                        return told
        self._noticed.wait(max(0.0, end - time.monotonic()))
        return self.lost

    def _run(self) -> None:
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
            except RuntimeError:  # the store is gone, and with it the machine, or the worker, that kept it
                if not self._stopped.is_set():
                    self._notice(Loss(0))
                return

    def _loss_of(self, rank: int, silent: float = 0.0) -> Loss | None:
        if self._store.add(key_of("stopped", rank), 0):
            return Loss(rank, "stopped")
        if self._store.add(key_of("failed", rank), 0):
            return Loss(rank, "failed")
        return Loss(rank) if silent > SILENCE or self._store.add(key_of("died", rank), 0) else None

    def _notice(self, loss: Loss) -> None:
        self.lost = loss
        self._noticed.set()
        with suppress(RuntimeError):
            self._store.add(key_of(loss.how, loss.rank), 1)  # so that all name the same worker
        # The next exchange may tell it better and seal what is finished, or this worker has the same error to tell.
        self._stopped.wait(2 * BEAT if loss.how == "died" else OWN_WORDS)
        if self._exits and not self._stopped.is_set():
            from .messages import leave_for_torchrun

            leave_for_torchrun(str(loss))
            sys.stderr.write(f"{'' if loss.how == 'stopped' else 'error: '}{loss}\n")
            sys.stderr.flush()
            os._exit(INTERRUPTED if loss.how == "stopped" else LOST)
