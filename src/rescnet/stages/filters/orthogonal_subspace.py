"""Orthogonal-subspace filters (OSNet: Gatto et al. 2020): a map that makes the class subspaces orthogonal.

The subspace U_c of a class is spanned by the leading eigenvectors of its patch covariance. With
G = Σ_c U_cU_cᵀ = BΛBᵀ, the map Λ^(-1/2)Bᵀ makes independent subspaces orthogonal (Fukunaga and Koontz 1970).

The original was not available to us, so two choices are our own. The filters are the rows of the largest Λ, which most
classes share. A class subspace has one dimension per filter, but at most half as many as a patch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .bank import BankOptions, Filters, PatchSource, check_count, register_bank
from .eigen import fix_signs, inverse_root, leading_eigenvectors


@register_bank("orthogonal-subspace")
def orthogonal_subspace_filters(
    source: PatchSource, count: int, generator: torch.Generator, options: BankOptions
) -> Filters:
    """Return the first ``count`` rows of the orthogonalising map, without bias."""
    sums = source.class_moments()
    covariances = sums.covariances()[sums.images > 0]
    dimensions = max(1, min(count, covariances.shape[1] // 2))
    weights = orthogonalising_map(leading_eigenvectors(covariances, dimensions))
    check_count("orthogonal-subspace", count, len(weights))
    return Filters(fix_signs(weights[:count]), weights.new_zeros(count)).unit_norm()


def orthogonalising_map(subspaces: Tensor) -> Tensor:
    """Return Λ^(-1/2)Bᵀ, shape (rank, M), largest Λ first, of subspaces (C, M, q) with orthonormal columns."""
    shared = (subspaces @ subspaces.transpose(1, 2)).sum(0)
    return inverse_root(shared).T.contiguous()
