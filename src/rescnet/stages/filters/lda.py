"""LDA filters with class means per position (LDANet: Chan et al. 2015, section II-C).

With X_i the patches of image i as columns and Γ_c the mean of X_i over the images of class c,

    W = Σ_c mean_{i∈c} (X_i - Γ_c)(X_i - Γ_c)ᵀ,    B = mean_c (Γ_c - Γ)(Γ_c - Γ)ᵀ,

the filters are the leading eigenvectors of W⁺B. With means per position the rank of B exceeds C - 1. If each map is
treated as an image, the columns of X_i are the patches of all maps of image i, as in the paper's second stage.

``within_ridge`` adds that fraction of W's mean eigenvalue to W; the paper has no ridge. Among directions of similar
ratio it prefers those with more variance. A possible reason why it helps: a mean over n_c images leaves noise of W/n_c
in B. Where classes do not differ, all directions then have the same ratio, and their order is random.

The paper requires VᵀV = I but solves the problem by these eigenvectors, which are not orthogonal. ``orthonormal`` makes
them so, by QR. On CIFAR-10 validation images this and the ridge helped together, but neither alone. The trace ratio
solved under VᵀV = I was far worse.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..patches import ClassMoments
from .bank import BankOptions, Filters, PatchSource, check_count, register_bank
from .eigen import fix_signs, inverse_root, leading_eigenvectors


@register_bank("lda")
def lda_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return the ``count`` leading discriminants of the patches, without bias."""
    within, between = position_scatters(source.class_moments())
    root = inverse_root(within, options.within_ridge)  # (M, rank)
    check_count("LDA", count, root.shape[1])
    directions = root @ leading_eigenvectors(root.T @ between @ root, count)
    if options.orthonormal:
        directions = torch.linalg.qr(directions).Q
    return Filters(fix_signs(directions.T.contiguous()), directions.new_zeros(count)).unit_norm()


def position_scatters(sums: ClassMoments) -> tuple[Tensor, Tensor]:
    """Return W and B, each (M, M), divided by the number of positions; classes without images are left out."""
    present = sums.images > 0
    images = sums.images[present]
    means = sums.by_position[present] / images[:, None, None]  # Γ_c, (C, positions, M)
    spread = sums.outer[present] / images[:, None, None]
    within = (spread - means.transpose(1, 2) @ means).sum(0)
    apart = (means - means.mean(0)).flatten(0, 1)
    between = apart.T @ apart / len(images)
    return within / sums.positions, between / sums.positions
