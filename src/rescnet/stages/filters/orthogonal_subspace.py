"""Orthogonal-subspace filters (OSNet: Gatto et al. 2020): a space in which the subspaces of the classes are orthogonal.

Each class has a subspace U_c, the leading eigenvectors of its patch covariance. With G = Σ_c U_cU_cᵀ = BΛBᵀ, the map
Λ^(-1/2)Bᵀ makes independent subspaces orthogonal (Fukunaga and Koontz 1970).

We could not see the original: that the rows of greatest Λ are the filters, those in which most classes have a share,
and that a class's subspace has as many dimensions as filters are asked for, half the patch's at most, is our reading.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...config.banks import NotEnoughFiltersError
from .bank import BankOptions, Filters, PatchSource
from .eigen import fix_signs, inverse_root, leading_eigenvectors
from .registry import register_bank


@register_bank("orthogonal-subspace")
def orthogonal_subspace_filters(
    source: PatchSource, count: int, generator: torch.Generator, options: BankOptions
) -> Filters:
    """Return the first ``count`` rows of the orthogonalising map; no bias."""
    sums = source.class_moments()
    covariances = sums.covariances()[sums.images > 0]
    dimensions = max(1, min(count, covariances.shape[1] // 2))
    weights = orthogonalising_map(leading_eigenvectors(covariances, dimensions))
    if count > len(weights):
        raise NotEnoughFiltersError(
            f"{count} orthogonal-subspace filters were asked of class subspaces that span {len(weights)} dimensions: "
            f"ask for at most {len(weights)}, or take larger filters."
        )
    return Filters(fix_signs(weights[:count]), weights.new_zeros(count)).unit_norm()


def orthogonalising_map(subspaces: Tensor) -> Tensor:
    """Return Λ^(-1/2)Bᵀ of subspaces (C, M, q), each with orthonormal columns, shape (rank, M), greatest Λ first."""
    shared = (subspaces @ subspaces.transpose(1, 2)).sum(0)
    return inverse_root(shared).T.contiguous()
