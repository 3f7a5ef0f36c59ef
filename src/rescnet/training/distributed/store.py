"""Connection to the key-value store that ``torchrun`` keeps for all processes of a run."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch.distributed as dist

ERROR_GRACE_SECONDS = 5.0  # time a rank has to report its own error after another rank has reported one


def connect() -> Any:
    """Return a new connection to the store at ``MASTER_ADDR``."""
    return dist.TCPStore(  # type: ignore[attr-defined]
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=timedelta(seconds=20)
    )


def key_of(name: str, rank: int) -> str:
    """Return a key of this attempt; the store keeps its keys when ``torchrun`` restarts the workers."""
    return f"rescnet/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{name}/{rank}"
