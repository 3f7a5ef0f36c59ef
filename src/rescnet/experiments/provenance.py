"""Provenance of a measured figure: commit, command, device, versions and date."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import torch


def origin(device: torch.device | str = "cpu", command: str | None = None) -> dict[str, Any]:
    """Return commit, command, device, versions and date of a run.

    Parameters
    ----------
    device : device or str
        Where it was computed.
    command : str, optional
        By default the command line of ``rescnet``.
    """
    from .. import __version__

    device = torch.device(device)
    versions = {"rescnet": __version__, "python": platform.python_version(), "torch": torch.__version__}
    if device.type == "cuda":
        versions["cuda"] = str(torch.version.cuda)
    return {
        "commit": commit(),
        "command": command or shown_command("rescnet"),
        "device": device_name(device),
        "versions": versions,
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def command_line() -> str:
    """Return the command line of this process, word by word."""
    return shlex.join(["rescnet", *sys.argv[1:]])


def shown_command(*program: str) -> str:
    """Return the command line of this process; absolute paths are cut to their last name."""
    return shlex.join([*program, *(Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:])])


def device_name(device: torch.device) -> str:
    """Return the name of a GPU, or the number of CPU threads and the architecture."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' if threads > 1 else ''} ({platform.machine()})"


def commit() -> str:
    """Return the commit of the code, with a ``+`` if files differ from it; ``unknown`` outside its repository.

    The environment variable ``RESCNET_COMMIT`` takes precedence: a copy of the working tree has no repository.
    """
    if named := os.environ.get("RESCNET_COMMIT"):
        return named
    package = Path(__file__).resolve().parents[1]
    try:
        top = _git(package, "rev-parse", "--show-toplevel")
        if package != Path(top).resolve() / "src" / "rescnet":
            return "unknown"  # installed inside another repository
        return _git(package, "describe", "--always", "--exclude=*", "--dirty=+")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
