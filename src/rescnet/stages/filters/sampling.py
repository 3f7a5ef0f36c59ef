"""Samples of patches, for banks that no sum can serve; images may be drawn by weight."""

from __future__ import annotations

import torch
from torch import Tensor

from .bank import PatchSource

SAMPLES = 50_000


def sample_patches(source: PatchSource, generator: torch.Generator, samples: int = SAMPLES) -> Tensor:
    """Return patches drawn evenly over positions, and over images or by their weight; float64, shape (samples, M)."""
    if source.weights is None:
        image = torch.randint(source.images, (samples,), generator=generator)
    else:
        ends = torch.tensor([[0]]), torch.tensor([[source.images]])
        image = places_by_weight(source.weights, *ends, samples, generator)[0]
    row = torch.randint(source.rows, (samples,), generator=generator)
    column = torch.randint(source.columns, (samples,), generator=generator)
    return source.gather(image, row, column)


def places_by_weight(weights: Tensor, first: Tensor, end: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Draw places of a list by weight, within a stretch of it a draw.

    Parameters
    ----------
    weights : Tensor of float64, shape (n,)
        Not negative; every stretch has some.
    first, end : Tensor of int64, shape (draws, 1)
        The stretch of each draw: its first place, and the one after its last.
    samples : int
        Places a draw.

    Returns
    -------
    Tensor of int64, shape (draws, samples)
    """
    heights = torch.cat([weights.new_zeros(1), weights.cumsum(0)])
    low, high = heights[first], heights[end]
    uniform = torch.rand(len(first), samples, generator=generator, dtype=torch.float64)
    place = torch.searchsorted(heights, low + uniform * (high - low), right=True) - 1
    return torch.maximum(first, torch.minimum(place, end - 1))
