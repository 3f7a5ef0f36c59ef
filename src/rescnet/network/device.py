"""Where a network is computed, and how precisely."""

from __future__ import annotations

import torch

from ..config.compute import ComputeOptions


def choose_precision(compute: ComputeOptions, device: torch.device) -> str:
    """Return ``exact``, ``balanced`` or ``fast``; float64 is always exact."""
    if compute.dtype == "float64":
        if compute.precision in ("balanced", "fast"):
            raise ValueError(
                f"precision {compute.precision!r} keeps features in float16: choose dtype float32 with it."
            )
        if compute.gram != "auto":
            raise ValueError(f"gram {compute.gram!r} is less than dtype float64: choose gram auto, or dtype float32.")
        return "exact"
    if compute.precision == "auto":
        return "balanced" if device.type == "cuda" else "exact"
    return compute.precision


def choose_device(name: str) -> torch.device:
    """Return the device of that name, or refuse it in one sentence."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device is {name!r}: choose auto, cpu, cuda or cuda:0.") from None
    missing = device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    if missing or device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name!r} is not to be had on this machine: choose cpu.")
    return device
