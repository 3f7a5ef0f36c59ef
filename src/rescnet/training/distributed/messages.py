"""Last messages of several processes: an error that all of them have is printed once, by rank 0.

A process that ends waits for rank 0's message first, since ``torchrun`` ends all others as soon as one is gone.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

ERROR_GRACE_SECONDS = 5.0  # time a rank has to report its own error after another rank has reported one
POLL = 0.1  # seconds


def connect() -> Any:
    """Return a new connection to the store at ``MASTER_ADDR``."""
    return dist.TCPStore(  # type: ignore[attr-defined]
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=timedelta(seconds=20)
    )


def key_of(name: str, rank: int) -> str:
    """Return a key of this attempt; the store keeps its keys when ``torchrun`` restarts the workers."""
    return f"rescnet/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{name}/{rank}"


def publish_rank0_message(text: str) -> None:
    """Store the message that rank 0 has printed, so that the other ranks need not repeat it."""
    with suppress(RuntimeError):  # the store may be closing
        if store := _store():
            store.set(key_of("said", 0), text)


def rank0_message() -> str | None:
    """Wait for the message of rank 0 and return it; None if there is none after some seconds."""
    end, key = time.monotonic() + ERROR_GRACE_SECONDS, key_of("said", 0)
    with suppress(RuntimeError):
        if store := _store():
            while not store.check([key]):
                if time.monotonic() > end:
                    return None
                time.sleep(POLL)
            message: str = store.get(key).decode()
            return message
    return None


def write_torchelastic_error(text: str) -> None:
    """Write a sentence to the file from which ``torchrun`` reports the root cause."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file:
        message = {"message": text, "extraInfo": {"timestamp": str(int(time.time()))}}
        with suppress(OSError):
            Path(file).write_text(json.dumps({"message": message}), "utf-8")


def _store() -> Any:
    """Return a connection to the store; None if it is closed: PyTorch would wait for it and print a warning."""
    try:
        socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), timeout=1).close()
    except (OSError, KeyError, ValueError):
        return None
    return connect()
