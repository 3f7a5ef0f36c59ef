"""Who is still there: each worker counts up in the store all share, and watches the others count.

A worker that computes for long goes on counting, in a thread of its own; one that was killed does not. Whoever notices
says which worker is lost and ends its own process, since the main thread may be waiting for the lost one for ever.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch.distributed as dist

BEAT = 1.0  # seconds from one count to the next
SILENCE = 12.0  # seconds without a count after which a worker is lost
LOST = 75  # exit code: try again


class WorkerLostError(ConnectionError):
    """Another worker has died, or has given up."""

    def __init__(self, rank: int) -> None:
        super().__init__(say_lost(rank))
        self.rank = rank


def say_lost(rank: int) -> str:
    """Return the sentence that tells of a lost worker."""
    return f"worker {rank} has died, so the run ends here: go on with --resume, with as many workers as there are."


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
        self.lost: int | None = None
        # torchrun may start workers again beside a store that remembers the last ones
        self._prefix = f"rescnet/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        self._store = store or dist.TCPStore(  # type: ignore[attr-defined]
            os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=timedelta(seconds=20)
        )
        self._stopped, self._noticed = threading.Event(), threading.Event()
        self._exits = True
        self._thread = threading.Thread(target=self._run, name="rescnet-heartbeat", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Tell the others that this worker is done, not dead."""
        self._store.add(f"{self._prefix}/left/{self.rank}", 1)

    def give_up(self) -> None:
        """Tell the others not to wait: this worker ends because of an error, which it tells itself."""
        with suppress(RuntimeError):  # the store may be what failed
            self._store.add(f"{self._prefix}/failed/{self.rank}", 1)

    def stop(self) -> None:
        """Stop counting."""
        self._stopped.set()
        self._thread.join(timeout=2 * BEAT)

    def wait_for_a_loss(self) -> int | None:
        """Wait until a lost worker is noticed, and return its rank; None if all go on counting.

        From now on it is the caller who ends the process.
        """
        self._exits = False
        self._noticed.wait(SILENCE + 5 * BEAT)
        return self.lost

    def _run(self) -> None:
        seen = dict.fromkeys((rank for rank in range(self.count) if rank != self.rank), (0, time.monotonic()))
        while not self._stopped.wait(BEAT):
            try:
                self._store.add(f"{self._prefix}/beat/{self.rank}", 1)
                for rank, (beats, _) in list(seen.items()):
                    now = self._store.add(f"{self._prefix}/beat/{rank}", 0)
                    if now != beats:
                        seen[rank] = now, time.monotonic()
                    if self._store.add(f"{self._prefix}/left/{rank}", 0):
                        del seen[rank]
                        continue
                    failed = self._store.add(f"{self._prefix}/failed/{rank}", 0)
                    if failed or time.monotonic() - seen[rank][1] > SILENCE:
                        self._notice(rank)
                        return
            except RuntimeError:  # the store is gone, and with it the machine, or the worker, that kept it
                if not self._stopped.is_set():
                    self._notice(0)
                return

    def _notice(self, rank: int) -> None:
        self.lost = rank
        self._noticed.set()
        time.sleep(2 * BEAT)  # an exchange that failed for the same reason may tell it better
        if self._exits and not self._stopped.is_set():
            sys.stderr.write(f"error: {say_lost(rank)}\n")
            sys.stderr.flush()
            os._exit(LOST)
