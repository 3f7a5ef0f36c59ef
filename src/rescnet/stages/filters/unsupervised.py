"""Banks without labels: principal components, random filters, whitened patches, cosines, ICA and CCA.

Whitened patches: with the covariance C and the mean μ of all patches, a filter of the bank ``patches`` is
w = (C + εI)⁻¹ (p - μ) for a random patch p. Its response to x is the inner product of x and p after both are whitened.
A direction of variance v has the weight √v/(v + ε) in such a filter, which is largest at v = ε. So ε sets the scale of
the details and suppresses noise. This bank goes beyond the paper (Coates and Ng 2012; Thiry et al. 2021).

DCT (DCTNet: Ng and Teoh 2015): the two-dimensional cosine basis, which is not learned. Filter (i, j) is D_iᵀD_j, where
D is the k-point orthonormal DCT-II matrix, in the order of i + j. The constant filter is left out. With several
channels the basis is multiplied by a cosine basis over the channels, in the order of channel + i + j; this is our own
extension.

ICA (ICANet): patches are centred and whitened to L dimensions, then unmixed by FastICA with log cosh. Filters are
unmixing × whitening. The algorithm is Hyvärinen's symmetric FastICA (1999). It runs on a sample of the patches, which
is our own choice.

CCA (CCANet: Yang et al. 2017): directions in which two views of a patch are most correlated. With covariances S_xx,
S_yy and S_xy of the views, the filters are S_xx^(-1/2)·U and S_yy^(-1/2)·V. U and V come from the singular value
decomposition of S_xx^(-1/2) S_xy S_yy^(-1/2). The original was not available to us, so the choice of views is our own.
With several channels, the first half are one view and the rest the other; each pair gives two filters, one per view.
With a single channel, the second view is the local binary pattern. It is not linear in the pixels, so a pair gives only
the filter on the pixels.
"""

from __future__ import annotations

import logging
from math import pi

import torch
from torch import Tensor
from torch.nn import functional as F

from ...numerics.linear_algebra import SINGULAR, eigen, fix_signs, inverse_root, leading_eigenvectors
from .bank import BankOptions, Filters, PatchSource, check_count, register_bank, sample_patches

RIDGE = 0.1  # ε of whitened patches, relative to the mean variance
ICA_MOST_ITERATIONS, ICA_TOLERANCE = 200, 1e-5
NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))  # of a pixel, clockwise

logger = logging.getLogger(__name__)


@register_bank("pca")
def pca_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return the ``count`` leading eigenvectors of the patch covariance (equations 1 and 3)."""
    covariance = source.covariance()
    check_count("PCA", count, len(covariance))
    filters = fix_signs(leading_eigenvectors(covariance, count).T.contiguous())
    if options.pca_signs == "drawn":
        filters *= 2 * torch.randint(2, (count, 1), generator=generator).to(filters) - 1
    bias = -filters @ source.mean() if options.pca_bias == "mean" else covariance.new_zeros(count)
    return Filters(filters, bias)


@register_bank("random")
def random_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return ``count`` Gaussian filters of unit norm, without bias, a baseline (RandNet: Chan et al. 2015)."""
    weights = torch.randn(count, source.channels * source.size**2, generator=generator, dtype=torch.float64)
    return Filters(weights, torch.zeros(count, dtype=torch.float64)).unit_norm()


@register_bank("patches")
def patch_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return ``count`` random patches, whitened twice, of unit norm; the bias is chosen like that of PCA filters."""
    values, vectors = eigen(source.covariance())
    regular = values > SINGULAR * values.max().clamp_min(torch.finfo(values.dtype).tiny)
    basis, variances = vectors[:, regular], values[regular] + RIDGE * values.clamp_min(0).mean()
    mean = source.mean().to(basis.device)
    drawn = sample_patches(source, generator, count).to(basis.device) - mean
    weights = (drawn @ basis / variances) @ basis.T
    bias = -weights @ mean if options.pca_bias == "mean" else weights.new_zeros(count)
    return Filters(weights, bias).unit_norm()


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


@register_bank("ica")
def ica_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return ``count`` independent components of a sample of the patches, without bias."""
    patches = sample_patches(source, generator)
    weights = independent_components(patches, count, generator)
    return Filters(weights, weights.new_zeros(count)).unit_norm()


def independent_components(samples: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return filters (count, M) with uncorrelated, maximally independent responses to ``samples`` (n, M)."""
    centred = samples - samples.mean(0)
    whitening = inverse_root(centred.T @ centred / len(centred))  # (M, rank), largest variance first
    check_count("ICA", count, whitening.shape[1])
    whitening = whitening[:, :count]
    unmixing = fast_ica(centred @ whitening, generator)
    return fix_signs(unmixing @ whitening.T)


def fast_ica(white: Tensor, generator: torch.Generator) -> Tensor:
    """Return the rotation (L, L) that makes white samples (n, L) independent, by fixed-point steps on log cosh."""
    size = white.shape[1]
    start = torch.randn(size, size, generator=generator, dtype=white.dtype).to(white.device)
    rotation = _nearest_rotation(start)
    for _ in range(ICA_MOST_ITERATIONS):
        slope = torch.tanh(white @ rotation.T)  # (n, L)
        curvature = 1 - slope.square().mean(0)
        new = _nearest_rotation(slope.T @ white / len(white) - curvature[:, None] * rotation)
        change = float(((new * rotation).sum(1).abs() - 1).abs().max())
        rotation = new
        if change < ICA_TOLERANCE:
            return rotation
    logger.info("FastICA has not converged: last change %.1e after %d iterations.", change, ICA_MOST_ITERATIONS)
    return rotation


def _nearest_rotation(matrix: Tensor) -> Tensor:
    """Return (AAᵀ)^(-1/2) A."""
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    rotation: Tensor = left @ right
    return rotation


@register_bank("cca")
def cca_filters(source: PatchSource, count: int, generator: torch.Generator, options: BankOptions) -> Filters:
    """Return the filters of the most correlated pairs, without bias."""
    if source.channels == 1:
        patches = sample_patches(source, generator)
        both = torch.cat([patches, binary_patterns(patches, source.size)], dim=1)
        centred = both - both.mean(0)
        covariance, first = centred.T @ centred / len(centred), patches.shape[1]
    else:
        covariance, first = source.covariance(), (source.channels + 1) // 2 * source.size**2
    u, v, _ = canonical_pairs(covariance[:first, :first], covariance[first:, first:], covariance[:first, first:])
    if source.channels == 1:
        weights = u.T
    else:
        on_first = F.pad(u.T, (0, len(v)))
        on_second = F.pad(v.T, (len(u), 0))
        weights = torch.stack([on_first, on_second], dim=1).flatten(0, 1)
    check_count("CCA", count, len(weights))
    return Filters(fix_signs(weights[:count].contiguous()), weights.new_zeros(count)).unit_norm()


def canonical_pairs(s_xx: Tensor, s_yy: Tensor, s_xy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return directions of both views as columns, (M_x, pairs) and (M_y, pairs), and their correlations, descending."""
    root_x, root_y = inverse_root(s_xx), inverse_root(s_yy)
    left, correlations, right = torch.linalg.svd(root_x.T @ s_xy @ root_y, full_matrices=False)
    return root_x @ left, root_y @ right.T, correlations


def binary_patterns(patches: Tensor, size: int) -> Tensor:
    """Return the local binary pattern of each pixel of grey patches (n, k·k), in [0, 1], same shape.

    Each of the eight neighbours of a pixel sets a bit if it is at least as bright. The border of the patch is repeated.
    """
    pixels = patches.view(-1, 1, size, size)
    framed = F.pad(pixels, (1, 1, 1, 1), mode="replicate")
    codes = torch.zeros_like(pixels)
    for bit, (down, right) in enumerate(NEIGHBOURS):
        neighbour = framed[:, :, 1 + down : 1 + down + size, 1 + right : 1 + right + size]
        codes += (neighbour >= pixels) * float(2**bit)
    return (codes / 255).view_as(patches)
