"""Patch sums from products of whole images: no patch is ever made.

The product of two pixels of a patch is the product of two pixels of the image. So with G = Σ x xᵀ over images as
vectors of c·h·w numbers, Σ p pᵀ over all patches adds up windows of G, one a position. G is one large matrix product,
which machines do best; patches would be k² copies of every image, multiplied a few columns at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ..stages.filters.class_moments import ClassMoments
from ..stages.patches import extract_patches

MOST_BYTES = 2**29  # that the products of all groups may take
MOST_NUMBERS = 4096  # in an image


def products_fit(shape: tuple[int, int, int], groups: int) -> bool:
    """Return whether products of images (c, h, w) are worth it, and fit, for so many groups."""
    numbers = shape[0] * shape[1] * shape[2]
    return numbers <= MOST_NUMBERS and groups * numbers**2 * 8 <= MOST_BYTES


def sums_of_images(chunks: Iterable[tuple[Tensor, Tensor]], groups: int, maps: int, size: int) -> ClassMoments:
    """Add up chunks of images.

    Parameters
    ----------
    chunks : iterable of (group, inputs)
        The group of each image, (n,), and its maps as images of their own, (n·maps, c, h, w).
    groups, maps : int
    size : int
        k.
    """
    count = products = totals = torch.empty(0)
    shape = torch.Size()
    for group, inputs in chunks:
        shape = inputs.shape[1:]
        images = inputs.view(-1, maps, shape.numel())
        if not len(count):
            count = inputs.new_zeros(groups).double()
            products = count.new_zeros(groups, shape.numel(), shape.numel())
            totals = count.new_zeros(groups, maps, shape.numel())
        for number in group.bincount().nonzero()[:, 0].tolist():
            members = images[group.to(images.device) == number] if groups > 1 else images
            flat = members.flatten(0, 1)
            count[number] += len(members)
            products[number] += (flat.T @ flat).double()
            totals[number] += members.sum(0).double()
    pixels = torch.arange(shape.numel(), dtype=torch.float64).view(1, *shape)
    windows = extract_patches(pixels, size)[0].long().to(products.device)  # (positions, M): which pixels a patch has
    outer = products.new_zeros(groups, windows.shape[1], windows.shape[1])
    for window in windows:
        outer += products[:, window[:, None], window]
    by_position = extract_patches(totals.view(-1, *shape), size).reshape(groups, -1, windows.shape[1])
    return ClassMoments(count, outer, by_position)
