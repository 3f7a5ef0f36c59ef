"""Stage 6: the spatial pyramid of PCANet (section 2.3.2); stages 5 and 6 together; and matrix logarithms of cells.

Each level p divides the map into p×p cells; the second-order features of the blocks in a cell are reduced to one.
:mod:`rescnet.fused.pooling` replaces :func:`pool_features` on a GPU, and :mod:`rescnet.fused.pooling_cpu` on a CPU.
:mod:`rescnet.fused.matrix_log` replaces :func:`matrix_logs` on a GPU. The logarithms go beyond the paper.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..config.geometry import Cell, Rectifier, Reduction, ZScore, count_pairs
from ..numerics.threads import in_threads
from .convolution import rectify
from .second_order import Pyramid, cell_shares, channel_pairs, mean_correlations, second_order_pool


def pyramid_pool(blocks: Tensor, cells: list[Cell], reduction: Reduction = "max") -> Tensor:
    """Reduce the features of each cell's blocks, elementwise: (n, block rows, block columns, pairs) → (n, cells·pairs).

    PCANet and this paper take the maximum, PCANet+ the mean.
    """
    if reduction == "mean":  # one product with the weight of each block in each cell
        return (cell_shares(blocks.shape[1:3], cells, blocks).flatten(1) @ blocks.flatten(1, 2)).flatten(1)
    # Rows first: reducing one contiguous axis at a time is an order of magnitude faster than two at once.
    pooled = [blocks[:, c.top : c.bottom].amax(1)[:, c.left : c.right].amax(1) for c in cells]
    return torch.cat(pooled, dim=1)


def pool_features(
    maps: Tensor,
    pyramids: list[Pyramid],
    z_score: ZScore = "channel",
    diagonal: bool = True,
    reduction: Reduction = "max",
) -> Tensor:
    """Return the features of the positive parts of ``maps`` (n, d, h, w) in all pyramids, (n, Σ cells·pairs)."""
    maps = rectify(maps)
    if reduction == "mean" and torch.compiler.is_compiling():
        parts = mean_correlations(maps, pyramids, z_score, diagonal)
    else:
        parts = [pyramid_pool(second_order_pool(maps, grid, z_score, diagonal), c, reduction) for grid, c in pyramids]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def pooling_input(maps: Tensor, rectifier: Rectifier) -> Tensor:
    """Return the maps whose positive parts are pooled: (n, d, h, w), or (n, 2d, h, w) for both signs."""
    return torch.cat([maps, -maps], dim=1) if rectifier == "both" else maps


DOUBLINGS = 8  # of the matrix logarithm
CACHED = 16  # matrices that are doubled together on a CPU
THREADED = 2**21  # multiplications: fewer are not worth a thread
ALIGNED = 8  # sides of half-precision matrices are padded to a multiple of this, for tensor cores


def matrix_logs(features: Tensor, channels: int) -> Tensor:
    """Replace each cell's correlation matrix P by a matrix that grows like its logarithm; both are upper triangles.

    X₀ = P/tr P, X ← 2X - X² eight times, and L is the sum of all nine. I - X is squared each time, so an eigenvalue v
    of X₀ becomes Σ 1 - (1 - v)^(2^m). Above 2⁻⁸ that grows by 1 with each doubling of v, as a logarithm does. Below, it
    is proportional to v: noise stays small. The result is √(tr P) L, times a number by which the identity stays itself.

    Features, (n, cells·pairs) like the result, are means of positive semi-definite matrices. On a GPU half precision is
    multiplied as such with float32 sums, one cell at a time, to save memory.
    """
    half = features.dtype == torch.float16
    exact = features.float() if half and not features.is_cuda else features
    triangles = exact.view(features.shape[0], -1, count_pairs(channels, diagonal=True))
    side = -(-channels // ALIGNED) * ALIGNED if half else channels
    place = _places(channels, side, features.device)
    rows, columns = channel_pairs(channels, diagonal=True, device=features.device)
    chosen = rows * side + columns

    def log(part: Tensor) -> Tensor:
        return _log(part, place, side, channels).flatten(1).index_select(1, chosen)

    if features.is_cuda:
        logs = torch.cat([log(cell) for cell in triangles.unbind(1)], dim=1)
    else:  # all cells at once: few large operations are faster, and an exported graph is smaller
        logs = in_threads(log, triangles.flatten(0, 1), least=-(-THREADED // side**3))
    return logs.view(features.shape).to(features.dtype)


def log_numbers(channels: int, cells: int) -> int:
    """Return the numbers per image in memory while a CPU takes logarithms, eight matrices per cell at most.

    These are the triangle, gathered, scaled, two doublings, their sum, the result, and its triangle.
    """
    return 8 * cells * channels**2


def log_numbers_of_cell(channels: int) -> int:
    """Return the numbers of the matrices of one padded cell, taken alone: gathered, scaled, doubled, and their sum."""
    return 4 * (channels + ALIGNED - 1) ** 2


def log_scale(channels: int) -> float:
    """Return the factor of √(tr P) L by which the logarithm of the identity is the identity."""
    value = total = 1 / channels
    for _ in range(DOUBLINGS):
        value = 2 * value - value**2
        total += value
    return 1 / (sqrt(channels) * total)


def _places(channels: int, side: int, device: torch.device) -> Tensor:
    """Return the index of each entry of a matrix (side²) in ``[triangle, 0]``."""
    index = np.arange(side)  # NumPy's result is a constant in an exported graph
    row, column = np.minimum(index[:, None], index), np.maximum(index[:, None], index)
    place = row * channels - row * (row - 1) // 2 + column - row  # entries below the diagonal are left out
    place = np.where(column < channels, place, count_pairs(channels, diagonal=True))
    return torch.as_tensor(place.ravel(), device=device)


def _log(triangle: Tensor, place: Tensor, side: int, channels: int) -> Tensor:
    """Return the logarithms of the matrices in ``triangle`` (n, pairs), shape (n, side, side)."""
    matrix = F.pad(triangle, (0, 1)).index_select(1, place).view(-1, side, side)
    trace = matrix.diagonal(dim1=1, dim2=2).sum(1)
    trace = torch.where(trace > 0, trace, 1)[:, None, None]  # if no channel varies, the result is zero
    matrix = matrix / trace
    total = matrix.clone()
    if matrix.is_cuda or matrix.requires_grad or torch.compiler.is_compiling():
        for _ in range(DOUBLINGS):
            matrix = torch.baddbmm(matrix, matrix, matrix, beta=2, alpha=-1)
            total += matrix
    else:  # a few matrices stay in the cache of a core through all doublings
        buffers = matrix.new_empty(2, min(CACHED, len(matrix)), side, side)
        for start in range(0, len(matrix), CACHED):
            part, sums = matrix[start : start + CACHED], total[start : start + CACHED]
            for step in range(DOUBLINGS):
                part = torch.baddbmm(part, part, part, beta=2, alpha=-1, out=buffers[step % 2, : len(part)])
                sums += part
    return total.mul_(trace.sqrt() * log_scale(channels))
