"""Block histograms of binary codes, the features of PCANet (Chan et al. 2015, section II-B3).

Each group of L maps becomes one image of codes ``Σ_l 2^(L-l) H(O_l)``, where H(x) = 1 for x > 0. Each block of a code
image gives a histogram of 2^L bins. With a pyramid, the histograms of a cell's blocks are reduced bin by bin.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from ..config.geometry import BlockGrid, Cell, Reduction
from .pooling import pyramid_pool

Normalisation = Literal["none", "block", "l2", "sqrt", "tied-rank"]
ZERO = 1e-5  # a smaller response of a unit-norm filter to inputs in [0, 1] is rounding error, e.g. on a flat patch


def binary_codes(maps: Tensor, bits: int) -> Tensor:
    """Return one code per pixel, 0 to 2^bits - 1, for each group of consecutive maps; the first is the highest bit.

    Maps (n, groups·bits, h, w) give int64 codes (n, groups, h, w).
    """
    n, channels, h, w = maps.shape
    weights = 2 ** torch.arange(bits - 1, -1, -1, device=maps.device)
    above = (maps > ZERO).view(n, channels // bits, bits, h, w)
    codes = torch.zeros(n, channels // bits, h, w, dtype=torch.int64, device=maps.device)
    for bit in range(bits):
        codes += above[:, :, bit] * weights[bit]
    return codes


def block_histograms(codes: Tensor, grid: BlockGrid, bins: int) -> Tensor:
    """Count the codes (n, groups, h, w) in each block, float32, shape (n, groups, block rows, block columns, bins).

    Blocks may overlap; pixels outside all blocks are not counted.
    """
    (r, c), (sy, sx) = grid.block, grid.stride
    blocks = codes.unfold(2, r, sy).unfold(3, c, sx)  # (n, groups, R, C, r, c), a view
    shape = blocks.shape[:4]
    count = shape.numel()
    first_bin = torch.arange(0, count * bins, bins, device=codes.device).view(*shape, 1, 1)
    counted = torch.bincount((blocks + first_bin).flatten(), minlength=count * bins)
    return counted.view(*shape, bins).float()


def histogram_features(
    maps: Tensor,
    bits: int,
    grid: BlockGrid,
    cells: list[Cell] | None,
    reduction: Reduction = "max",
    normalisation: Normalisation = "l2",
) -> Tensor:
    """Return the features of ``maps`` (n, groups·bits, h, w), float32, shape (n, groups·(cells or blocks)·2^bits).

    They are ordered by group, then cell or block, then bin. Without ``cells`` of a pyramid, every block is kept.
    """
    histograms = block_histograms(binary_codes(maps, bits), grid, 2**bits)
    if cells is None:
        features = histograms.flatten(1)
    else:
        n, groups = histograms.shape[:2]
        features = pyramid_pool(histograms.flatten(0, 1), cells, reduction).view(n, groups, -1).flatten(1)
    return normalise(features, normalisation, grid, 2**bits)


def normalise(features: Tensor, kind: Normalisation, grid: BlockGrid, bins: int) -> Tensor:
    """Scale histogram features (n, D).

    * ``"block"``: every block sums to the number of bins (PCANet without a pyramid).
    * ``"l2"``: unit length (PCANet with a pyramid).
    * ``"sqrt"``: square roots, then unit length (PCANet+).
    * ``"tied-rank"``: :func:`tied_ranks`, then square roots, then unit length (DCTNet).
    """
    if kind == "none":
        return features
    if kind == "block":
        return features * (bins / (grid.block[0] * grid.block[1]))
    if kind == "sqrt":
        features = features.sqrt()
    elif kind == "tied-rank":
        features = tied_ranks(features).sqrt()
    return F.normalize(features, dim=1)


def tied_ranks(counts: Tensor) -> Tensor:
    """Replace the positive counts of each row by their ranks among them, from 1; equal counts share their mean rank.

    Of counts (n, D), integers are ranked by counting how often each occurs; other values are sorted first.
    """
    place = counts.long()
    if torch.equal(place.to(counts.dtype), counts):
        values = torch.arange(int(place.max()) + 1, device=counts.device)
    else:
        values, place = torch.unique(counts, return_inverse=True)  # ascending, over all rows
    n, kinds = len(counts), len(values)
    first = torch.arange(0, n * kinds, kinds, device=counts.device)[:, None]
    counted = place + first
    if counts.is_cuda:  # most of a row is zeros, and their atomic additions to one place would be slow
        counted = counted[counts > 0]
    times = torch.bincount(counted.flatten(), minlength=n * kinds).view(n, kinds)
    times[:, values <= 0] = 0
    ranks = times.cumsum(1) - (times - 1) / 2  # the last rank of a value, minus half the number of others equal to it
    ranks[:, values <= 0] = 0
    return ranks.to(counts.dtype).gather(1, place)
