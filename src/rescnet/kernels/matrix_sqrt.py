"""After stage 6: the matrix square roots of all cells in one Triton kernel, each matrix in the registers of a program.

``stages.roots`` writes every step of the iteration to memory: for 50 maps in half precision about 0.3 MB a matrix, one
for each image and cell. Here a triangle is read, thirteen 64×64 products run on tensor cores (those of float32 without
them), and a triangle is written: 5 kB a matrix.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from ..config.geometry import count_pairs
from ..stages.matrix_sqrt import ITERATIONS
from .matrix_sqrt_triton import root_of_cell


def fused_roots(features: Tensor, channels: int, diagonal: bool) -> Tensor:
    """Return what ``stages.roots.matrix_roots`` returns, shape (n, cells·pairs)."""
    features = features.contiguous()
    pairs = count_pairs(channels, diagonal)
    roots = torch.empty_like(features)
    root_of_cell[(features.numel() // pairs,)](
        features,
        roots,
        pairs,
        channels,
        SIDE=max(16, triton.next_power_of_2(channels)),
        DIAGONAL=diagonal,
        STEPS=ITERATIONS,
        PRECISION="ieee" if features.dtype.itemsize >= 4 else "tf32",  # half precision does not ask
        num_warps=4,
    )
    return roots
