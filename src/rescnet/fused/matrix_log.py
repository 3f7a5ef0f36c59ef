"""Matrix logarithms of all cells in one Triton kernel, after stage 6; each matrix stays in registers.

:mod:`rescnet.stages.pooling` writes every doubling to memory: with 64 maps in half precision about 0.2 MB per matrix,
and there is one matrix per image and cell. The kernel reads and writes one triangle, 4 kB per matrix. In between it
computes eight 64×64 products, on tensor cores for half precision.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ..config.geometry import count_pairs
from ..stages.pooling import DOUBLINGS, log_scale


def fused_logs(features: Tensor, channels: int) -> Tensor:
    """Overwrite features, (n, cells·pairs), by the result of ``stages.pooling.matrix_logs``, and return them."""
    if features.stride(1) != 1:
        features = features.contiguous()
    pairs = count_pairs(channels, diagonal=True)
    cells = features.shape[1] // pairs
    log_of_cell[(len(features) * cells,)](
        features,
        features.stride(0),
        log_scale(channels),
        cells,
        pairs,
        channels,
        SIDE=max(16, triton.next_power_of_2(channels)),
        DOUBLINGS=DOUBLINGS,
        PRECISION="ieee" if features.dtype.itemsize >= 4 else "tf32",  # ignored for half precision
        num_warps=4,
    )
    return features


@triton.jit
def log_of_cell(
    features,  # (n, cells, pairs), ``stride`` numbers from one image to the next
    stride,
    scale,
    cells,
    pairs,
    d,
    SIDE: tl.constexpr,
    DOUBLINGS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Replace the upper triangle of one d×d matrix, padded to SIDE×SIDE with zeros, by that of its logarithm."""
    cell = tl.program_id(0)
    features += (cell // cells).to(tl.int64) * stride + (cell % cells) * pairs
    i = tl.arange(0, SIDE)[:, None]
    j = tl.arange(0, SIDE)[None, :]
    row = tl.minimum(i, j)
    column = tl.maximum(i, j)
    place = row * d - row * (row - 1) // 2 + column - row
    matrix = tl.load(features + place, mask=column < d, other=0.0).to(tl.float32)
    trace = tl.sum(tl.sum(tl.where(i == j, matrix, 0.0), 1), 0)
    trace = tl.where(trace > 0, trace, 1.0)
    kind = features.dtype.element_ty
    matrix = matrix / trace
    total = matrix
    for _ in range(DOUBLINGS):
        factor = matrix.to(kind)
        matrix = tl.dot(-factor, factor, 2 * matrix, input_precision=PRECISION)
        total += matrix
    found = total * (tl.sqrt(trace) * scale)
    tl.debug_barrier()  # all threads have read before one writes
    # Not ``place``: kept in registers meanwhile, it would halve the number of programs per processor.
    upper = i * d - i * (i - 1) // 2 + j - i
    tl.store(features + upper, found.to(kind), mask=(j < d) & (i <= j))
