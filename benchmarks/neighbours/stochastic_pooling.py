"""Stochastic pooling (Zeiler & Fergus 2013): a window's pixel is drawn with a probability proportional to its value.

When predicting, a window's value is the sum of its pixels weighted by those probabilities. Differs from the paper:
batch normalisation instead of response normalisation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class StochasticPool(nn.Module):
    """3×3 windows at stride 2 on non-negative maps (n, c, h, w)."""

    def __init__(self, size: int = 3, stride: int = 2) -> None:
        super().__init__()
        self.size, self.stride = size, stride

    def forward(self, x: Tensor) -> Tensor:
        """Return one value a window; an empty window gives zero."""
        size, before = self.size, self.size // 2
        padded = F.pad(x, (before, before, before, before))
        windows = padded.unfold(2, size, self.stride).unfold(3, size, self.stride).flatten(-2)  # (n, c, rows, cols, 9)
        total = windows.sum(-1, keepdim=True)
        if not self.training:
            return (windows.square().sum(-1, keepdim=True) / total.clamp_min(1e-6))[..., 0]
        # The pixel drawn is the first whose cumulated share exceeds a uniform number.
        level = torch.rand_like(total) * total
        chosen = (windows.cumsum(-1) < level).sum(-1, keepdim=True).clamp_max(size * size - 1)
        return windows.gather(-1, chosen)[..., 0]


class StochasticPoolingNetwork(nn.Module):
    """Three 5×5 convolutions of 64 filters, each pooled; images (n, channels, h, w) → scores (n, classes)."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = image_shape[0]
        for _ in range(3):
            layers += [nn.Conv2d(before, 64, 5, padding=2, bias=False), nn.BatchNorm2d(64), nn.ReLU(), StochasticPool()]
            before = 64
        self.layers = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            self.layers.eval()
            size = self.layers(torch.zeros(1, *image_shape)).shape[1]
            self.layers.train()
        self.head = nn.Linear(size, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores of images."""
        return self.head(self.layers(images))
