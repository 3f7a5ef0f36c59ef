"""LDA filters (LDANet: Chan et al. 2015, section II-C): class means are taken position by position.

With X_i the patches of image i as columns and Γ_c the mean of X_i over the images of class c,

    W = Σ_c mean_{i∈c} (X_i - Γ_c)(X_i - Γ_c)ᵀ,    B = mean_c (Γ_c - Γ)(Γ_c - Γ)ᵀ,

the filters are the leading eigenvectors of W⁺B. Position-wise means make the rank of B more than C - 1. Where each map
is an image of its own, an image's patches are those of all its maps side by side, as in the paper's second stage.

``within_ridge`` adds that share of W's mean eigenvalue to W, which among directions of like ratio prefers those with
more variance; the paper has no ridge. Why it helps is a guess: a mean over n_c images leaves W/n_c of noise in B, so
where classes do not differ all directions have the same ratio, and which of them become filters is chance.

The paper states the problem with VᵀV = I, and as its solution these eigenvectors, which are not orthogonal. With
``orthonormal`` they are made so, each less what those before it span. On held-out CIFAR-10 images this and the ridge
helped together, neither alone. Solving the trace ratio itself under VᵀV = I did far worse.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...config.banks import NotEnoughFiltersError
from .bank import BankOptions, Filters, PatchSource
from .class_moments import ClassMoments
from .eigen import fix_signs, inverse_root, leading_eigenvectors
from .registry import register_bank


@register_bank("lda")
def lda_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return the ``count`` leading discriminants of the patches; no bias."""
    within, between = position_scatters(source.class_moments())
    root = inverse_root(within, options.within_ridge)  # (M, rank)
    if count > root.shape[1]:
        raise NotEnoughFiltersError(
            f"{count} LDA filters were asked of patches of rank {root.shape[1]}: ask for at most {root.shape[1]}, or "
            f"take larger filters."
        )
    directions = root @ leading_eigenvectors(root.T @ between @ root, count)
    if options.orthonormal:
        directions = torch.linalg.qr(directions).Q
    return Filters(fix_signs(directions.T.contiguous()), directions.new_zeros(count)).unit_norm()


def position_scatters(sums: ClassMoments) -> tuple[Tensor, Tensor]:
    """Return W and B, each (M, M), per position; classes without images are left out."""
    present = sums.images > 0
    images = sums.images[present]
    means = sums.by_position[present] / images[:, None, None]  # Γ_c, (C, positions, M)
    spread = sums.outer[present] / images[:, None, None]
    within = (spread - means.transpose(1, 2) @ means).sum(0)
    apart = (means - means.mean(0)).flatten(0, 1)
    between = apart.T @ apart / len(images)
    return within / sums.positions, between / sums.positions
