"""Device and precision of a computation."""

from __future__ import annotations

import torch

from ..base.errors import ConfigError
from ..config.compute import ComputeOptions


def choose_precision(compute: ComputeOptions, device: torch.device) -> str:
    """Return ``exact``, ``balanced`` or ``fast``; float64 is always exact."""
    if compute.dtype == "float64":
        if compute.precision in ("balanced", "fast"):
            raise ConfigError(f"precision must be exact with dtype float64, got {compute.precision!r}.")
        return "exact"
    if compute.precision == "auto":
        return "balanced" if device.type == "cuda" else "exact"
    return compute.precision


def choose_device(name: str) -> torch.device:
    """Return the device of that name."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device must be auto, cpu, cuda or cuda:0, got {name!r}.") from None
    missing = device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    if missing or device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device must be available, got {name!r}. Use 'cpu'.")
    return device
