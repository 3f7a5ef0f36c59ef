"""CCA filters (CCANet: Yang et al. 2017): directions in which two views of a patch are most correlated.

With covariances S_xx, S_yy and S_xy of the views, the filters are S_xx^(-1/2)·U and S_yy^(-1/2)·V. U and V come from
the singular value decomposition of S_xx^(-1/2) S_xy S_yy^(-1/2).

The original was not available to us, so the choice of views is our own. With several channels, the first half are one
view and the rest the other; each pair gives two filters, one per view. With a single channel, the second view is the
local binary pattern. It is not linear in the pixels, so a pair gives only the filter on the pixels.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .bank import BankOptions, Filters, PatchSource, check_count, register_bank, sample_patches
from .eigen import fix_signs, inverse_root

NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))  # clockwise


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
