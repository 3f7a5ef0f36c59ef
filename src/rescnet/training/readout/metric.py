"""Metric of the codes: directions in which the answer changes count more; beyond the paper.

The kernel regression of the classes has the outputs f_k(c) = Σ_j K(c, c_j) q_jk. Their derivative is known::

    g_k(c_i) = Σ_j K_ij q_jk (c_i - c_j),      ∇f_k = -2s g_k

M = Σ_ik g_k(c_i) g_k(c_i)ᵀ is large in directions that tell classes apart (the average gradient outer product:
A. Radhakrishnan et al., "Mechanism for feature learning in neural networks and backpropagation-free machine learning
models", Science 2024). Codes c become M^(p/2)·c, up to a rotation. All is in closed form; nothing descends.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...numerics.code_kernel import Codes, code_kernel
from ...numerics.linear_algebra import eigen, product

POWER = 0.3  # p
IMAGES = 10_000  # drawn at most, at which derivatives are taken
OUTPUTS = 32  # of more classes, as many random combinations are used: Σ_k g_k g_kᵀ is the mean over random signs
TOGETHER = 2048  # images
LEAST = 1e-6  # eigenvalue of M, relative to the mean


def metric_operations(rows: int, classes: int, size: int) -> int:
    """Return the operations of :func:`learned_metric`."""
    return 2 * min(rows, IMAGES) * min(classes, OUTPUTS) * size * (rows + size)


def learned_metric(codes: Codes, solution: Tensor, scale: float, seed: int) -> Tensor:
    """Return T, shape (r, r): new codes are c·T, the most important numbers first.

    ``solution`` (N, classes) is q of the kernel regression of the classes on the codes (N, r), with s = ``scale``.
    """
    generator, values = torch.Generator().manual_seed(seed), codes.values
    columns = solution
    if solution.shape[1] > OUTPUTS:
        signs = torch.randint(0, 2, (solution.shape[1], OUTPUTS), generator=generator) * 2 - 1
        columns = solution @ signs.to(solution)
    columns = columns / columns.abs().amax().clamp_min(torch.finfo(columns.dtype).tiny)  # for half precision
    chosen = torch.randperm(len(codes), generator=generator)[:IMAGES].sort().values.to(values.device)
    total = torch.zeros(values.shape[1], values.shape[1], dtype=codes.norms.dtype, device=values.device)
    for some in torch.split(chosen, TOGETHER):
        near, own = code_kernel(codes[some], codes, scale).to(values.dtype), values[some].to(total.dtype)
        outputs = near.to(columns.dtype) @ columns
        for column, output in zip(columns.T, outputs.T, strict=True):
            weighted = column[:, None].to(values.dtype) * values
            pulled = product(near, weighted) if near.dtype == torch.float16 else near @ weighted
            change = output[:, None] * own - pulled
            total.addmm_(change.T, change)
    sizes, vectors = eigen(total.double())
    mean = sizes.mean()
    if not float(mean) > 0:  # all codes are equal
        return torch.eye(len(total), dtype=total.dtype, device=total.device)
    scaled: Tensor = vectors * (sizes / mean).clamp_min(LEAST).pow(POWER / 2)
    return scaled.flip(1).to(total.dtype)
