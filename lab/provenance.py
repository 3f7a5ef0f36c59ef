"""Provenance of a result: commit, command, device, versions and date."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from rescnet.model import describe_run

ROOT = Path(__file__).resolve().parent.parent


def origin(device: torch.device | str, command: str) -> dict[str, Any]:
    """Return commit, command, device, versions and date of a run."""
    device = torch.device(device)
    run = describe_run(device)
    if device.type == "cuda":
        run["versions"]["cuda"] = str(torch.version.cuda)
    return {"commit": commit(), "command": command, **run, "device": device_name(device)}


def shown_command(module: str) -> str:
    """Return the command line of this process; absolute paths are cut to their last name."""
    words = (Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:])
    return shlex.join(["python", "-m", module, *words])


def device_name(device: torch.device) -> str:
    """Return the name of a GPU, or the number of CPU threads and the architecture."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' if threads > 1 else ''} ({platform.machine()})"


def commit() -> str:
    """Return the commit of the code, with a ``+`` if files differ from it; ``unknown`` without a repository.

    The environment variable ``RESCNET_COMMIT`` takes precedence: a copy of the working tree has no repository.
    """
    if named := os.environ.get("RESCNET_COMMIT"):
        return named
    try:
        if Path(_git("rev-parse", "--show-toplevel")).resolve() != ROOT:
            return "unknown"  # a copy inside another repository
        return _git("describe", "--always", "--exclude=*", "--dirty=+")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
