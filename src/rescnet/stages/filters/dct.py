"""DCT filters (DCTNet: Ng and Teoh 2015): the two-dimensional cosine basis, which is not learned.

Filter (i, j) is D_iᵀD_j, where D is the k-point orthonormal DCT-II matrix, in the order of i + j. The constant filter
is left out. With several channels the basis is multiplied by a cosine basis over the channels, in the order of
channel + i + j; this is our own extension.
"""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor

from .bank import BankOptions, Filters, PatchSource, check_count, register_bank


@register_bank("dct")
def dct_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return the first ``count`` cosine filters after the constant one, without bias.

    If the mean is subtracted from each patch, filters that are constant over each channel are left out too: they have
    no response.
    """
    weights = cosine_basis(source.channels, source.size, source.zero_mean)
    check_count("DCT", count, len(weights))
    return Filters(weights[:count], torch.zeros(count, dtype=torch.float64))


def cosine_basis(channels: int, size: int, varying_only: bool = False) -> Tensor:
    """Return the orthonormal basis without the constant, in zig-zag order, shape (count, channels·size·size)."""
    across, along = dct_matrix(channels), dct_matrix(size)
    order = sorted(
        ((c, i, j) for c in range(channels) for i in range(size) for j in range(size)),
        key=lambda index: (sum(index), index),
    )
    kept = [(c, i, j) for c, i, j in order if (i, j) != (0, 0) or (c > 0 and not varying_only)]
    if not kept:
        return torch.zeros(0, channels * size * size, dtype=torch.float64)
    rows = [torch.einsum("c,i,j->cij", across[c], along[i], along[j]).flatten() for c, i, j in kept]
    return torch.stack(rows)


def dct_matrix(size: int) -> Tensor:
    """Return the orthonormal DCT-II matrix, shape (size, size); row i is the cosine of frequency i."""
    place = torch.arange(size, dtype=torch.float64)
    cosines = torch.cos(pi / size * (place + 0.5) * place[:, None])
    cosines[0] /= 2**0.5
    scaled: Tensor = cosines * (2 / size) ** 0.5
    return scaled
