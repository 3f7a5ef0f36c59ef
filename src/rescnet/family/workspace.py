"""How many images go through a member at a time, from the bytes one of them takes."""

from __future__ import annotations

from torch import Tensor

from .config import FamilyConfig

LARGEST_WORKSPACE = {"cpu": 32 * 2**20, "cuda": 4 * 2**30}  # bytes; on a CPU memory this small is not asked for anew


def images_at_a_time(config: FamilyConfig, image_shape: tuple[int, int, int], like: Tensor) -> int:
    """Return the images of a chunk, on the device and in the floating type of ``like``."""
    channels, h, w = image_shape
    numbers, maps = channels * h * w, channels
    for stage in range(1, config.depth + 1):
        k = config.size_of_filter(stage)
        patches = maps * k * k * h * w
        grown = config.maps(stage)
        numbers = max(numbers, 2 * patches, 3 * (maps + grown) * h * w)
        maps = grown
    if config.output == "histogram":
        rows, columns = config.grid((h, w)).shape
        counts = rows * columns * maps // config.code_bits * 2**config.code_bits
        numbers = max(numbers, 5 * counts)
    elif config.output == "second-order":
        rows, columns = config.grid((h, w)).shape
        numbers = max(numbers, rows * columns * 4 * maps * maps)
    return max(1, LARGEST_WORKSPACE[like.device.type] // (numbers * like.dtype.itemsize))
