"""Banks from sums over each class's patches: LDA, canonical (DCCNet) and orthogonal-subspace (OSNet) filters.

LDA filters with class means per position (LDANet: Chan et al. 2015, section II-C): with X_i the
patches of image i as columns and Γ_c the mean of X_i over the images of class c,

    W = Σ_c mean_{i∈c} (X_i - Γ_c)(X_i - Γ_c)ᵀ,    B = mean_c (Γ_c - Γ)(Γ_c - Γ)ᵀ,

the filters are the leading eigenvectors of W⁺B. With means per position the rank of B exceeds C - 1. If each map is
treated as an image, the columns of X_i are the patches of all maps of image i, as in the paper's second stage.

``within_ridge`` adds that fraction of W's mean eigenvalue to W; the paper has no ridge. Among directions of similar
ratio it prefers those with more variance. A possible reason why it helps: a mean over n_c images leaves noise of W/n_c
in B. Where classes do not differ, all directions then have the same ratio, and their order is random.

The paper requires VᵀV = I but solves the problem by these eigenvectors, which are not orthogonal. ``orthonormal`` makes
them so, by QR. On CIFAR-10 validation images this and the ridge helped together, but neither alone. The trace ratio
solved under VᵀV = I was far worse.

Canonical filters (Kim, Kittler and Cipolla 2007): each set of patches spans a subspace. The filters are directions T
that increase the canonical correlations between sets of the same class and decrease those between classes. Let P_i be a
basis of set i, scaled so that TᵀP_i is orthonormal, and Q the rotations of the singular value decomposition
(TᵀP_i)ᵀ(TᵀP_j) = Q_ij Λ Q_jiᵀ. With

    S = Σ (P_iQ_ij - P_jQ_ji)(P_iQ_ij - P_jQ_ji)ᵀ,

summed over pairs of the same class for S_w and over pairs of two classes for S_b, T are the leading eigenvectors of
S_w⁻¹S_b. Both steps are repeated.

Orthogonal-subspace filters (Gatto et al. 2020): the subspace U_c of a class is spanned by the leading eigenvectors of
its patch covariance. With G = Σ_c U_cU_cᵀ = BΛBᵀ, the map Λ^(-1/2)Bᵀ makes independent subspaces orthogonal (Fukunaga
and Koontz 1970).

The originals of the last two were not available to us, so some choices are our own. Canonical: two sets per class, its
images divided in turn. Orthogonal: the filters are the rows of the largest Λ, which most classes share. A class
subspace has one dimension per filter, but at most half as many as a patch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...numerics.linear_algebra import fix_signs, inverse_root, leading_eigenvectors
from ..patches import ClassMoments
from .bank import BankOptions, Filters, PatchSource, check_count, register_bank

SETS = 2  # per class, of canonical filters
ROUNDS = 5
RIDGE = 1e-3  # of the mean of S_w's diagonal


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


@register_bank("canonical")
def canonical_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return the ``count`` leading directions, without bias."""
    sums = source.class_moments(SETS)
    here = sums.images > 0
    covariances = sums.covariances()[here]
    classes = (torch.arange(len(here), device=here.device) // SETS)[here]
    check_count("canonical", count, covariances.shape[1])
    subspaces = leading_eigenvectors(covariances, max(1, count // 2))  # (sets, M, q)
    weights = discriminant_directions(subspaces, classes, count)
    return Filters(fix_signs(weights), weights.new_zeros(count)).unit_norm()


def discriminant_directions(subspaces: Tensor, classes: Tensor, count: int, rounds: int = ROUNDS) -> Tensor:
    """Return T as rows, shape (count, M), from set subspaces (sets, M, q) and their classes (sets,)."""
    size = subspaces.shape[1]
    directions = torch.eye(size, dtype=subspaces.dtype, device=subspaces.device)  # T as columns
    for _ in range(rounds):
        within, between = correlation_scatters(subspaces, classes, directions)
        floor = RIDGE * within.diagonal().mean().clamp_min(torch.finfo(within.dtype).tiny ** 0.5)
        within.diagonal().add_(floor)
        root = inverse_root(within)
        directions = root @ leading_eigenvectors(root.T @ between @ root, min(count, root.shape[1]))
        directions = directions / directions.norm(dim=0)
    return directions.T.contiguous()


def correlation_scatters(subspaces: Tensor, classes: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    """Return S_w and S_b, each (M, M), for the current directions, columns of (M, count)."""
    projected = directions.T @ subspaces  # (sets, count, q)
    bases, triangle = torch.linalg.qr(projected)
    triangle.diagonal(dim1=1, dim2=2).add_(torch.finfo(triangle.dtype).tiny ** 0.5)
    scaled = torch.linalg.solve_triangular(triangle, subspaces, upper=True, left=False)  # P_i, (sets, M, q)
    size = subspaces.shape[1]
    within, between = (subspaces.new_zeros(size, size) for _ in range(2))
    for one in range(len(subspaces)):
        left, _, right = torch.linalg.svd(bases[one].T @ bases)  # of all pairs (one, other)
        apart = scaled[one] @ left - scaled @ right.transpose(1, 2)  # (sets, M, q)
        same = classes == classes[one]
        for total, chosen in ((within, same), (between, ~same)):
            columns = apart[chosen].transpose(0, 1).flatten(1)  # (M, pairs·q)
            total += columns @ columns.T
    return within, between


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
