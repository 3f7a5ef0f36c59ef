"""What several workers say when they end: an error all of them have is told once, by the first.

A worker that ends gives the first one time to say why it ends too; ``torchrun`` ends the others as soon as one is gone.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .watchdog import OWN_WORDS, connect, key_of

POLL = 0.1  # seconds


def say_as_first(text: str) -> None:
    """Let the others know what the first worker has said, so that they need not say it again."""
    with suppress(RuntimeError):  # the store may be going
        if store := _store():
            store.set(key_of("said", 0), text)


def words_of_first(patience: float = OWN_WORDS) -> str | None:
    """Return what the first worker has said at its end, waiting for it a while; None if it says nothing."""
    end, key = time.monotonic() + patience, key_of("said", 0)
    with suppress(RuntimeError):
        if store := _store():
            while not store.check([key]):
                if time.monotonic() > end:
                    return None
                time.sleep(POLL)
            said: str = store.get(key).decode()
            return said
    return None


def leave_for_torchrun(text: str) -> None:
    """Put a sentence where ``torchrun`` looks for what its report calls the root cause."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file:
        message = {"message": text, "extraInfo": {"timestamp": str(int(time.time()))}}
        with suppress(OSError):
            Path(file).write_text(json.dumps({"message": message}), "utf-8")


def _store() -> Any:
    """Return a connection to the store, or None where nobody keeps it: PyTorch would wait for it, and complain."""
    try:
        socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), timeout=1).close()
    except (OSError, KeyError, ValueError):
        return None
    return connect()
