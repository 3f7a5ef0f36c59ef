"""Bytes: how many there are, how many may be used, and how people write them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
AUTO_SHARE = 0.6


def parse_bytes(text: str) -> int:
    """Read an amount of memory.

    Examples
    --------
    >>> parse_bytes("16GB"), parse_bytes("1.5 GiB"), parse_bytes("4096")
    (16000000000, 1610612736, 4096)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", text.upper())
    if not match or match[2] not in UNITS or float(match[1]) <= 0:
        raise ValueError(f"memory is {text!r}: write it as 500MB, 16GB or 16GiB.")
    return int(float(match[1]) * UNITS[match[2]])


def memory_budget(text: str, device: torch.device, workers: int = 1) -> int:
    """Return the bytes training may use; ``"auto"`` is a share of what the device has, not of what is free just now.

    So the chunks, and with them the last bits of the network, are the same from run to run. Workers on one machine
    share its memory; each has a GPU of its own.
    """
    if text != "auto":
        return parse_bytes(text)
    if device.type == "cuda":
        return int(AUTO_SHARE * torch.cuda.get_device_properties(device).total_memory)
    return int(AUTO_SHARE * host_memory()) // workers


def host_memory() -> int:
    """Return the bytes of memory this machine, or the group of processes this one is in, has."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and limit.read_text().strip().isdigit():
        total = min(total, int(limit.read_text()))
    return total


def show_bytes(count: float) -> str:
    """Write an amount of memory for people.

    Examples
    --------
    >>> show_bytes(1_340_000_000), show_bytes(999_900)
    ('1.34 GB', '1 MB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB", "PB", "EB"):
        if count < 999.5 or unit == "EB":  # what rounds to 1000 is one of the next
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError
