"""Chunk sizes from a byte budget, and the peak that was really used.

What a layer holds: the maps of all images (they are the next layer's input), the Gram matrix with its scatter and
factor, and the heads. The block grid is never held whole; the feature matrix only where it fits. What is left of the
budget is workspace, and the workspace of one image says how many images a chunk may have.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from ..config import NetworkConfig
from ..stages.half_products import padded_size
from ..workspace import LARGEST_WORKSPACE, workspace_per_image

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
LIBRARIES = {"cpu": 48 * 2**20, "cuda": 512 * 2**20}  # what BLAS, the convolution and the allocator take for themselves
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


def memory_budget(text: str, device: torch.device) -> int:
    """Return the bytes training may use; ``"auto"`` is a share of what the device has, not of what is free just now.

    So the chunks, and with them the last bits of the network, are the same from run to run.
    """
    if text != "auto":
        return parse_bytes(text)
    if device.type == "cuda":
        return int(AUTO_SHARE * torch.cuda.get_device_properties(device).total_memory)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and limit.read_text().strip().isdigit():
        total = min(total, int(limit.read_text()))
    return int(AUTO_SHARE * total)


@dataclass(frozen=True)
class Plan:
    """How a training run will use its memory.

    Attributes
    ----------
    features : int
        D, per image and layer.
    width : int
        D, padded for tensor cores where features are in half precision.
    chunk : int
        Images that go through a layer at a time.
    rows : int
        Kept features that are summed at a time.
    keep_features : bool
        Whether the features of all training images are held between the two passes over them, or computed twice.
    maps_bytes, gram_bytes, features_bytes, workspace_bytes, budget : int
    """

    features: int
    width: int
    chunk: int
    rows: int
    keep_features: bool
    maps_bytes: int
    gram_bytes: int
    features_bytes: int
    workspace_bytes: int
    budget: int

    @property
    def total_bytes(self) -> int:
        """What the run is expected to take beside the images themselves."""
        return self.maps_bytes + self.gram_bytes + self.features_bytes + self.workspace_bytes


def plan_memory(
    config: NetworkConfig,
    image_shape: tuple[int, int, int],
    classes: int,
    train_images: int,
    other_images: int,
    itemsize: int,
    half: bool,
    budget: int,
    device: torch.device,
) -> Plan:
    """Fit a run into the budget, or say what it would need."""
    _, h, w = image_shape
    features = config.features((h, w))
    width, stored = (padded_size(features), 2) if half else (features, itemsize)
    maps_bytes = (train_images + other_images) * config.filters * h * w * stored
    factors = 2 if config.sign_samples == "own" else 1
    # Of all images the output; of training images also one-hot classes, residuals and the targets of both signs.
    outputs = (7 * train_images + 2 * other_images) * classes * itemsize
    heads = (config.layers + 4) * features * 2 * classes * itemsize
    # Gram, scatter and factor; a second Gram where each sign has its own images.
    gram_bytes = (2 + factors) * width**2 * itemsize + heads + outputs
    per_image = workspace_per_image(config, image_shape, itemsize, fused=half and device.type == "cuda")
    held = maps_bytes + gram_bytes + LIBRARIES[device.type]
    features_bytes = train_images * width * stored
    keep = held + features_bytes + LARGEST_WORKSPACE[device.type] + per_image <= budget
    if not keep:
        features_bytes = 0
    room = min(budget - held - features_bytes, LARGEST_WORKSPACE[device.type])
    if room < per_image:
        raise ValueError(
            f"memory of {show_bytes(budget)} is too little for this network, which needs "
            f"{show_bytes(held + per_image)} ({show_bytes(maps_bytes)} of maps, {show_bytes(gram_bytes)} of sums): "
            f"allow more, take fewer filters or images, or keep maps in half precision (precision balanced)."
        )
    chunk = min(room // per_image, train_images)
    return Plan(
        features=features,
        width=width,
        chunk=chunk,
        rows=max(1, room // (2 * width * stored)),
        keep_features=keep,
        maps_bytes=maps_bytes,
        gram_bytes=gram_bytes,
        features_bytes=features_bytes,
        workspace_bytes=chunk * per_image + LIBRARIES[device.type],
        budget=budget,
    )


class PeakMemory:
    """The most memory held since :meth:`reset`, in bytes."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def reset(self) -> None:
        """Start anew. Where the system does not let a process reset its peak, the peak is that of its whole life."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def bytes(self) -> int:
        """Return the peak."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        try:
            status = Path("/proc/self/status").read_text()
            return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]
        except (OSError, TypeError):
            import resource

            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def show_bytes(count: float) -> str:
    """Write an amount of memory for people.

    Examples
    --------
    >>> show_bytes(1_340_000_000)
    '1.34 GB'
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError
