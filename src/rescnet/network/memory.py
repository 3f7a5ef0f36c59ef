"""Memory of a device, and the bytes one image takes on its way through a layer."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path

import torch

from ..config.network import NetworkConfig
from ..formatting import parse_bytes
from ..kernels import pools_in_place, roots_in_place, sums_in_place
from ..stages.filters import bank_of_layer
from ..stages.patches import span
from ..stages.second_order import count_pairs

AUTO_SHARE = 0.6


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


CLASS_SUM_BANKS = ("lda", "canonical", "orthogonal-subspace")  # they write patches out
LARGEST_WORKSPACE = {"cpu": 96 * 2**20, "cuda": 4 * 2**30}  # bytes; more is no faster


def chunk_size(
    config: NetworkConfig, image_shape: tuple[int, int, int], itemsize: int, device_type: str, fused: bool = False
) -> int:
    """Return how many images, in all their views, go through a layer at a time in prediction."""
    one = len(config.views) * workspace_per_image(config, image_shape, itemsize, fused)
    return max(1, LARGEST_WORKSPACE[device_type] // one)


def workspace_per_image(
    config: NetworkConfig, image_shape: tuple[int, int, int], itemsize: int, fused: bool = False
) -> int:
    """Return the bytes one image takes while its patches are summed, convolved, or pooled: the largest of the three."""
    channels, h, w = image_shape
    d, pooled = config.filters, config.pooled_maps
    pairs = count_pairs(pooled, config.keeps_diagonal)
    inputs = (channels + d) * h * w
    copies = 3 if config.activation == "none" else 4  # of a layer's input, on its way
    copies += (config.dilation > 1) + (config.border != "zero")
    patches = 0
    by_class = any(class_sum_banks(config.bank, layer) for layer in range(1, config.bank.count(";") + 2))
    for layer in config.kinds_of_layer:
        depth, k = channels + (d if config.place_in_stack(layer) > 1 else 0), config.size_of_filter(layer)
        in_place = fused and not by_class
        apart, covered = config.dilation_of(layer), span(k, config.dilation_of(layer))
        if not (in_place and sums_in_place(depth, (h // apart, w // apart), k)):
            patches = max(patches, 2 * depth * k * k * (h - covered + 1) * (w - covered + 1))
    features = config.features((h, w))
    if len(config.grids((h, w))) > 1 or config.means or config.feature_power != 1:
        features *= 2  # parts before they are joined, or powers beside them
    if config.matrix_root:  # roots beside what they are of, or the matrices of one cell and what they are multiplied by
        features += features if fused and roots_in_place(pooled) else 4 * (pooled + 7) ** 2
    if config.prepares_images:
        inputs += 4 * channels * h * w
    if fused and pools_in_place(
        pooled
    ):  # half precision, and the block grid stays in registers: atoms, at most four a cell
        return 2 * (copies * inputs + max(patches, 6 * 2 * pooled * h * w) + 6 * features)
    pooling = 0
    for grid, _ in config.grids((h, w)):
        # Maps, what blocks come to, and windows: their pixels, the products, the pairs, and pairs summed along rows.
        windows = prod(grid.windows.shape) * (prod(grid.windows.block) * pooled + pooled**2 + pairs)
        windows += grid.shape[0] * grid.windows.shape[1] * pairs
        pooling = max(pooling, 5 * pooled * h * w + 3 * prod(grid.shape) * pairs + windows)
    return itemsize * (copies * inputs + max(patches, 2 * inputs, pooling) + 2 * features)


def class_sum_banks(banks: str, layer: int) -> list[str]:
    """Return the banks of a layer of any stack, counted from 1, that are solved from sums over each class's patches.

    Examples
    --------
    >>> class_sum_banks("stacked-lda; 3 pca + 1 lda", 1), class_sum_banks("stacked-lda; 3 pca + 1 lda", 2)
    ([], ['lda'])
    """
    stacks = range(1, banks.count("|") + 2)
    words = " ".join(bank_of_layer(banks, layer, stack) for stack in stacks).replace("+", " ").split()
    return [bank for bank in CLASS_SUM_BANKS if bank in words]
