"""Memory: the device's, the bytes one image takes in a layer, and the bytes of a readout.

Chunk sizes of training and prediction follow from these counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch

from ..base.errors import TooLittleMemoryError
from ..base.text import parse_bytes, show_bytes
from ..config.grammars import class_sums_of
from ..config.network import NetworkConfig
from ..fused import has_log_kernel, has_patch_sum_kernel, has_pooling_kernel, pooling_numbers
from ..numerics.sketch import sketch_size
from ..stages.convolution import INPUT_COPIES as CONVOLVED
from ..stages.images import INPUT_COPIES as SCALED
from ..stages.patches import patch_numbers
from ..stages.pooling import log_numbers, log_numbers_of_cell

AUTO_SHARE, GPU_SHARE = 0.6, 0.8  # of the host's memory, and of a GPU's
LIBRARIES = {"cpu": 48 * 2**20, "cuda": 512 * 2**20}  # bytes: BLAS, the convolution and the allocator
LARGEST_WORKSPACE = {"cpu": 192 * 2**20, "cuda": 4 * 2**30}  # bytes; more is hardly faster


def too_little(needed: int, what: str, budget: int, remedy: str) -> TooLittleMemoryError:
    """Return the error of a budget that is too small for something that needs more bytes."""
    rule = f"max_memory must be at least {show_bytes(needed)} {what}, got {show_bytes(budget)}"
    return TooLittleMemoryError(f"{rule}. Allow more, or {remedy}.", needed)


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


def chunk_size(config: NetworkConfig, sizes: RunSizes, device_type: str) -> int:
    """Return the number of images, in all their views, that pass through a layer together in prediction."""
    one = len(config.views) * workspace_per_image(config, sizes, device_type)
    return max(1, LARGEST_WORKSPACE[device_type] // one)


def workspace_per_image(config: NetworkConfig, sizes: RunSizes, device_type: str) -> int:
    """Return the bytes that one image takes in the most expensive of three steps: patch sums, convolution, pooling.

    The kernels of a GPU compute in half precision and keep the block grid in registers. On a CPU the count is too high
    with fewer threads than images, for each thread pools one image after the other. There, the plain stages of pooling
    take more than the compiled program.
    """
    channels, size, pooled = sizes.image_shape[0], sizes.image_shape[1:], config.pooled_maps
    pyramids, features = config.grids(size), config.features(size)
    inputs = (channels + config.filters) * prod(size)
    fused = sizes.half and device_type == "cuda"
    banks = list(banks_of_layers(config, channels))
    by_class = any(class_sums_of(bank) for bank, _, _ in banks)
    patches = 0
    for _, depth, k in banks:
        if by_class or not (fused and has_patch_sum_kernel(depth, size, k)):
            patches = max(patches, patch_numbers(depth, size, k))
    if fused and has_pooling_kernel(pooled):
        from ..fused.pooling import MOST_ATOMS, numbers_of_maps

        if config.matrix_log and not has_log_kernel(pooled):
            features += log_numbers_of_cell(pooled)
        # The input of the patch sums, and maps; atoms, features and their copy; all in half precision.
        work = max(patches, numbers_of_maps(pooled, size))
        return 2 * (2 * inputs + work + (MOST_ATOMS + 2) * features)
    kind = config.keeps_diagonal, config.pooling
    pooling = pooling_numbers(pyramids, pooled, *kind, device_type == "cpu")
    if len(pyramids) > 1:
        features *= 2  # the parts, and the whole they are joined to
    if config.matrix_log:
        features += log_numbers_of_cell(pooled)
        pooling = max(pooling, *(log_numbers(pooled, len(cells)) for _, cells in pyramids))
    work = max(patches, CONVOLVED * inputs, pooling)
    return sizes.itemsize * (SCALED * inputs + work + 2 * features)  # features in another type, too


def banks_of_layers(config: NetworkConfig, channels: int) -> Iterator[tuple[str, int, int]]:
    """Yield the mixture of banks, the input's channels and k of each kind of layer."""
    for layer in {*range(1, config.bank.count(";") + 2), *config.kinds_of_layer}:
        maps = config.filters if config.place_in_stack(layer) > 1 else 0
        yield config.bank_of(layer), channels + maps, config.size_of_filter(layer)


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
