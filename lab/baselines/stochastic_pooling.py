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
        pixels = self._pixels(x)
        total = torch.stack(pixels).sum(0, dtype=torch.float32)
        if not self.training:
            return (torch.stack(pixels).square().sum(0) / total.clamp_min(1e-6)).to(x.dtype)
        # The pixel drawn is the one in whose share of the total a uniform number falls.
        level, before = torch.rand_like(total) * total.detach(), torch.zeros_like(total)
        drawn = torch.zeros_like(pixels[0])
        for pixel in pixels:
            after = before + pixel.detach()
            drawn = drawn + pixel * ((before <= level) & (level < after))
            before = after
        return drawn

    def _pixels(self, x: Tensor) -> list[Tensor]:
        """Return the first pixels of all windows, then the second, …: views (n, c, rows, columns), the border zero."""
        size, border, (height, width) = self.size, self.size // 2, x.shape[2:]
        padded = F.pad(x, (border, border, border, border))
        starts = [(down, right) for down in range(size) for right in range(size)]
        return [padded[:, :, i : i + height : self.stride, j : j + width : self.stride] for i, j in starts]


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
