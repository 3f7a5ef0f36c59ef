"""Compiled versions of stages, most for a GPU: the same results, and the tests of the stage they replace."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..config.geometry import Rectifier, Reduction, count_pairs
from ..numerics.linear_algebra import CACHED_ROWS, LEAST_COLUMNS, lower_product, split
from ..numerics.sketch import sketch
from ..numerics.threads import in_threads
from ..stages.images import ValueRange
from ..stages.moments import Moments
from ..stages.pooling import matrix_logs, pool_features, pooling_input
from ..stages.second_order import Pyramid, second_order_numbers, tile_of
from .half_precision import CopiedPatchSums, FoldedScale, convolve_scaled, raw_input

if TYPE_CHECKING:
    from .patch_sums import PatchSums

MOST_CHANNELS = 128  # d×d sums of products must fit into the registers of one program
MOST_LOG_CHANNELS = 64  # three d×d matrices must fit into them
LEAST_CHANNELS = 16  # with fewer, tiles of 64 channels would be mostly empty
ROWS = 2  # of the matrix of pairs, pooled at a time on a CPU
WIDTH = 32  # places on a CPU are padded to a multiple of this: the compiler's loops take as many numbers at once


Convolution = Callable[[Tensor | None, Tensor], tuple[Tensor, ValueRange | None]]
"""Function of maps (n, d_i, h, w), or None, and images (n, d, h, w): O of a layer, and its range if already known."""


def convolution_for(folded: FoldedScale, weights: Tensor, bias: Tensor, image: FoldedScale) -> Convolution:
    """Return the convolution in half precision with filters (d, c, k, k): the kernel on a GPU, else the plain stage.

    The last of the c channels are those of the image, which is first scaled by ``image``.
    """
    if weights.is_cuda and _has_triton():
        from .convolution import FusedConvolution

        return FusedConvolution(folded, weights, bias, image)
    return lambda maps, images: (convolve_scaled(maps, image(images), folded, weights, bias), None)


def input_of_sums(maps: Tensor | None, images: Tensor, image: FoldedScale) -> Tensor:
    """Return ``raw_input(maps, image(images))``, for :func:`patch_sums_for`: from one kernel on a GPU."""
    if images.is_cuda and _has_triton():
        from .patch_sums import fused_raw_input

        return fused_raw_input(maps, images, image)
    return raw_input(maps, image(images))


def patch_sums_for(
    device: torch.device, channels: int, image_size: tuple[int, int], size: int
) -> PatchSums | CopiedPatchSums:
    """Return the object that sums k×k patches: by shifted products on a GPU, else from copied patches."""
    if device.type == "cuda" and has_patch_sum_kernel(channels, image_size, size):
        from .patch_sums import PatchSums

        return PatchSums(channels)
    return CopiedPatchSums(channels, size)


def has_patch_sum_kernel(channels: int, image_size: tuple[int, int], size: int) -> bool:
    """Return whether a GPU sums such patches without copying them: 3×3 patches of layers that see maps."""
    return size == 3 and channels >= LEAST_CHANNELS and min(image_size) >= 5 and _has_triton()


def patch_sums_bytes(channels: int, image_size: tuple[int, int], size: int) -> int:
    """Return the bytes of a GPU's partial sums over k×k patches that are not copied; 0 if they are."""
    if not has_patch_sum_kernel(channels, image_size, size):
        return 0
    from .patch_sums import zone_bytes

    return zone_bytes(channels)


def pool_maps(
    maps: Tensor,
    pyramids: list[Pyramid],
    diagonal: bool,
    reduction: Reduction,
    rectifier: Rectifier = "relu",
) -> Tensor:
    """Return the features of all pyramids, (n, Σ cells·pairs): from a kernel on a GPU or CPU, else the plain stages."""
    pooled = 2 * maps.shape[1] if rectifier == "both" else maps.shape[1]
    if maps.is_cuda and maps.dtype != torch.float64 and has_pooling_kernel(pooled):
        from .pooling import fused_pool

        return fused_pool(maps, pyramids, diagonal, reduction, rectifier)
    exact = pooling_input(maps.float() if maps.dtype == torch.float16 else maps, rectifier)
    if _compiles(maps):
        from .pooling_cpu import compiled_pool

        features = compiled_pool(exact, pyramids, diagonal, reduction)
    else:
        features = pool_features(exact, pyramids, "channel", diagonal, reduction)
    return features.to(maps.dtype)


def pooling_numbers(pyramids: list[Pyramid], channels: int, diagonal: bool, reduction: Reduction, on_cpu: bool) -> int:
    """Return the numbers per image in memory that :func:`pool_maps` takes without a kernel on a GPU."""
    if not (on_cpu and has_numba()):
        return max(second_order_numbers(grid, channels, diagonal) for grid, _ in pyramids)
    grids, size = [grid for grid, _ in pyramids], pyramids[0][0].map_size
    places = prod(size) // prod(tile_of(grids)) + WIDTH
    planes = ROWS * channels if reduction == "mean" else count_pairs(channels, diagonal)  # some rows, or all pairs
    # Maps: as given, in float32, both signs, and in tiles. At each place: means, scales, and planes of pairs.
    return 4 * channels * prod(size) + len(grids) * places * (2 * channels + planes)


def _compiles(x: Tensor) -> bool:
    """Return whether the compiled program can read a tensor: it needs no gradient, and no model is exported."""
    recorded = x.requires_grad or torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return x.device.type == "cpu" and not recorded and has_numba()


def has_pooling_kernel(channels: int) -> bool:
    """Return whether a GPU pools maps with that many channels without writing the block grid."""
    return channels <= MOST_CHANNELS and _has_triton()


def logs_for(features: Tensor, channels: int) -> Callable[[Tensor, int], Tensor]:
    """Return the function that computes matrix logarithms: from a kernel on a GPU or CPU, else the plain stage.

    The kernel on a GPU overwrites the features. Larger matrices are left to the stage: SciPy's BLAS would multiply them
    in threads of its own.
    """
    if features.is_cuda and features.dtype != torch.float64 and has_log_kernel(channels):
        from .matrix_log import fused_logs

        return fused_logs
    if channels <= MOST_LOG_CHANNELS and _compiles(features):
        from .pooling_cpu import compiled_logs

        return compiled_logs
    return matrix_logs


def has_log_kernel(channels: int) -> bool:
    """Return whether a GPU computes logarithms of matrices of that size without writing the doublings."""
    return channels <= MOST_LOG_CHANNELS and _has_triton()


def sketch_features(features: Tensor, weights: Tensor, size: int) -> Tensor:
    """Return the sketches (n, size) of features (n, D) with weights (D,): from a kernel on a GPU, else the stage."""
    if features.is_cuda and weights.dtype == torch.float32 and _has_triton():
        from .feature_sums import fused_sketch

        return fused_sketch(features, weights, size)
    return sketch(features, weights, size)


def add_column_sums(sums: Tensor, features: Tensor, shift: Tensor) -> None:
    """Add Σ (f - shift) and Σ (f - shift)² of features (n, D) to ``sums`` (2, D), float64."""
    if features.is_cuda and features.dtype != torch.float64 and _has_triton():
        from .feature_sums import add_column_sums_

        return add_column_sums_(sums, features, shift)
    sums += in_threads(_column_sums, features.T, shift.to(features.dtype), least=LEAST_COLUMNS).T
    return None


def _column_sums(columns: Tensor, shift: Tensor) -> Tensor:
    """Return Σ (f - shift) and Σ (f - shift)² of some columns (c, n) of features, with shifts (c,), shape (c, 2)."""
    wide = torch.promote_types(columns.dtype, torch.float32)
    sums = columns.new_zeros(len(columns), 2, dtype=torch.float64)
    for part in torch.split(columns, CACHED_ROWS, dim=1):
        shifted = (part.T - shift).to(wide)
        sums[:, 0] += shifted.sum(0)
        sums[:, 1] += shifted.square_().sum(0)
    return sums


def moments_for(features: Tensor) -> type[Moments]:
    """Return the class of sums over features: one with kernels for half precision on a GPU."""
    if features.is_cuda and features.dtype == torch.float16 and _has_triton():
        from .feature_sums import FusedMoments

        return FusedMoments
    return Moments


def symmetric_multiplier(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    """Return x → A x for a symmetric A (D, D) of which the lower triangle is read: few columns by a kernel on a GPU."""
    if matrix.is_cuda and matrix.dtype == torch.float32 and _has_triton():
        from .symmetric_product import MOST_COLUMNS, symmetric_product

        return lambda x: (symmetric_product if x.shape[1] <= MOST_COLUMNS else lower_product)(matrix, x)
    return lambda x: lower_product(matrix, x)


def halves_of_exp(exponents: Tensor) -> list[Tensor]:
    """Return exp of a tile, float32, as the sum of two tensors in half precision: from one kernel on a GPU."""
    if exponents.is_cuda and _has_triton():
        from .split_exponential import split_exponential

        return split_exponential(exponents)
    return list(split(exponents.exp()))


@cache
def has_numba() -> bool:
    """Return whether a CPU pools maps, and takes matrix logarithms, by a compiled program."""
    try:
        import numba  # noqa: F401
    except ImportError:  # it is missing, or too old for this NumPy
        return False
    return True


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
