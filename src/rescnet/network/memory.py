"""Memory: the device's, the bytes one image takes in a layer, and the bytes of a readout.

Chunk sizes of training and prediction follow from these counts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch

from ..config.geometry import count_pairs
from ..config.grammars import BANKS, ClassSums, bank_of_layer, parse_mixture
from ..config.network import NetworkConfig
from ..fused import ROWS, has_log_kernel, has_numba, has_patch_sum_kernel, has_pooling_kernel
from ..numerics.sketch import sketch_size
from ..stages.second_order import tile_of
from ..text import parse_bytes, show_bytes

AUTO_SHARE, GPU_SHARE = 0.6, 0.8  # of the host's memory, and of a GPU's
LARGEST_WORKSPACE = {"cpu": 192 * 2**20, "cuda": 4 * 2**30}  # bytes; more is hardly faster


class TooLittleMemoryError(ValueError):
    """A budget in bytes that is too small for something that needs more."""

    def __init__(self, needed: int, what: str, budget: int, remedy: str) -> None:
        super().__init__(
            f"memory must be at least {show_bytes(needed)} {what}, got {show_bytes(budget)}. Allow more, or {remedy}."
        )
        self.needed = needed


@dataclass(frozen=True)
class RunSizes:
    """Sizes of a run that decide what it costs."""

    image_shape: tuple[int, int, int]  # (channels, height, width)
    classes: int
    train: int  # training images
    other: int = 0  # validation and test images together
    itemsize: int = 4  # bytes of the floating type
    half: bool = False  # maps and features are stored in half precision

    @property
    def stored(self) -> int:
        """Bytes of one number of the maps and features."""
        return 2 if self.half else self.itemsize


def memory_budget(text: str, device: torch.device, processes: int = 1) -> int:
    """Return the bytes that training may use; ``"auto"`` is a share of the device's memory, free or not.

    So the chunks, and with them the last bits of the network, are the same from run to run. Processes on one host share
    its memory; each has its own GPU.
    """
    if text != "auto":
        return parse_bytes(text)
    if device.type == "cuda":
        return int(GPU_SHARE * torch.cuda.get_device_properties(device).total_memory)
    return int(AUTO_SHARE * host_memory()) // processes


def host_memory() -> int:
    """Return the bytes of memory of this host, or of the control group that this process runs in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and limit.read_text().strip().isdigit():
        total = min(total, int(limit.read_text()))
    return total


def chunk_size(
    config: NetworkConfig, image_shape: tuple[int, int, int], itemsize: int, device_type: str, half: bool = False
) -> int:
    """Return the number of images, in all their views, that pass through a layer together in prediction."""
    one = len(config.views) * workspace_per_image(config, image_shape, itemsize, device_type, half)
    return max(1, LARGEST_WORKSPACE[device_type] // one)


def workspace_per_image(
    config: NetworkConfig, image_shape: tuple[int, int, int], itemsize: int, device_type: str, half: bool = False
) -> int:
    """Return the bytes that one image takes in the most expensive of three steps: patch sums, convolution, pooling.

    The kernels of a GPU compute in half precision and keep the block grid in registers. On a CPU the count is too high
    with fewer threads than images, for each thread pools one image after the other. There, the plain stages of pooling
    take more than the compiled program.
    """
    channels, h, w = image_shape
    fused = half and device_type == "cuda"
    d, pooled = config.filters, config.pooled_maps
    pairs = count_pairs(pooled, config.keeps_diagonal)
    inputs = (channels + d) * h * w
    patches = 0
    by_class = any(class_sums_of(config.bank, layer) for layer in range(1, config.bank.count(";") + 2))
    for layer in config.kinds_of_layer:
        depth, k = channels + (d if config.place_in_stack(layer) > 1 else 0), config.size_of_filter(layer)
        if not (fused and not by_class and has_patch_sum_kernel(depth, (h, w), k)):
            patches = max(patches, 2 * depth * k * k * (h - k + 1) * (w - k + 1))
    features = config.features((h, w))
    if fused and has_pooling_kernel(pooled):  # input of the patch sums, or maps; at most four atoms per cell
        logs = 4 * (pooled + 7) ** 2 if config.matrix_log and not has_log_kernel(pooled) else 0
        return 2 * (2 * inputs + max(patches, 6 * 2 * pooled * h * w) + 6 * (features + logs))
    if len(config.block_sizes) > 1:
        features *= 2  # the parts, and the whole they are joined to
    if config.matrix_log:  # the matrices of one cell and their sums
        features += 4 * (pooled + 7) ** 2
    grids, pooling = config.grids((h, w)), 0
    compiled = device_type == "cpu" and has_numba()
    if compiled:  # maps, their pixels, and pairs at each place of a block: of some rows, or all for their maximum
        tiles = h * w // prod(tile_of([grid for grid, _ in grids])) + 32
        planes = ROWS * pooled if config.pooling == "mean" else pairs
        pooling = 4 * pooled * h * w + len(grids) * tiles * (2 * pooled + planes)
    for grid, cells in grids:
        # Maps, blocks, and windows: their pixels, the products, the pairs, and pairs summed along rows.
        windows = prod(grid.windows.shape) * (prod(grid.windows.block) * pooled + pooled**2 + pairs)
        windows += grid.shape[0] * grid.windows.shape[1] * pairs
        if not compiled:
            pooling = max(pooling, 5 * pooled * h * w + 3 * prod(grid.shape) * pairs + windows)
        if config.matrix_log:
            pooling = max(pooling, 8 * len(cells) * pooled**2)
    return itemsize * (3 * inputs + max(patches, 2 * inputs, pooling) + 2 * features)


def class_sums_of(banks: str, layer: int) -> list[ClassSums]:
    """Return the sums over each class's patches of a layer's banks; layers are counted from 1.

    These banks write patches out.
    """
    facts = (BANKS[name] for _, name in parse_mixture(bank_of_layer(banks, layer)))
    return [bank.class_sums for bank in facts if bank.class_sums is not None]


def readout_rows(config: NetworkConfig, images: int) -> int:
    """Return the number of images, copies included, that a readout of n training images stores."""
    return images * config.rows_per_image


def readout_file_bytes(config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, images: int) -> int:
    """Return the approximate size of a readout's file, for n training images with their copies; 0 without a readout."""
    coefficients = 4 * images * classes
    if not config.has_kernel:
        return 0
    numbers = config.layers * sketch_size(config, image_shape[1:])
    size = min(config.readout_size, images, numbers)
    return size * (numbers + images) + 4 * config.layers * config.features(image_shape[1:]) + coefficients
