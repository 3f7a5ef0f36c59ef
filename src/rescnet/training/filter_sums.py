"""What the sums over patches take while a layer's filters are learnt, whatever the number of images."""

from __future__ import annotations

from ..config import NetworkConfig
from ..kernels import sums_in_place, zone_sums_bytes
from ..workspace import class_sum_banks

DOUBLE = 8  # bytes: sums over patches are float64
PATCH_SUM_COPIES = 4  # of Σ p pᵀ: the sum, the one it is added to, the covariance, and its eigenvectors
# Of each class: sets of its images, copies of Σ p pᵀ and of Σ p by position, as summed, as means and in between.
CLASS_SUMS = {"lda": (1, 4, 3), "canonical": (2, 6, 1), "orthogonal-subspace": (1, 6, 1)}


def filter_sums_bytes(
    config: NetworkConfig, image_shape: tuple[int, int, int], classes: int, fused: bool = False
) -> int:
    """Return the bytes of the layer that takes most.

    Parameters
    ----------
    fused : bool
        Whether a GPU sums patches in half precision, 3×3 ones without writing them out.
    """
    channels, h, w = image_shape
    largest, groups = 0, 2 * classes if config.filter_labels == "residual" else classes
    for layer in {*range(1, config.bank.count(";") + 2), *config.kinds_of_layer}:  # the last bank named goes on
        depth = channels + (config.filters if config.place_in_stack(layer) > 1 else 0)
        k = config.size_of_filter(layer)
        numbers, positions = depth * k * k, (h - k + 1) * (w - k + 1)
        needed = PATCH_SUM_COPIES * DOUBLE * numbers**2
        if fused and sums_in_place(depth, (h, w), k):
            needed += zone_sums_bytes(depth)
        by_class = 0
        for bank in class_sum_banks(config.bank, config.place_in_stack(layer)):
            sets, outers, places = CLASS_SUMS[bank]
            by_class = max(by_class, groups * sets * DOUBLE * (outers * numbers**2 + places * positions * numbers))
        largest = max(largest, needed + by_class)
    return largest
