"""Random samples of patches, for banks that need more than sums."""

from __future__ import annotations

import torch
from torch import Tensor

from .bank import PatchSource

SAMPLES = 50_000


def sample_patches(source: PatchSource, generator: torch.Generator, samples: int = SAMPLES) -> Tensor:
    """Return patches drawn uniformly over images and positions, float64, shape (samples, M)."""
    image = torch.randint(source.images, (samples,), generator=generator)
    row = torch.randint(source.rows, (samples,), generator=generator)
    column = torch.randint(source.columns, (samples,), generator=generator)
    return source.gather(image, row, column)
