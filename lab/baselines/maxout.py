"""Maxout network (Goodfellow et al. 2013): units are the maximum of several linear pieces, with dropout.

Their CIFAR network: three convolutional maxout layers of two pieces, then a dense one of five. Differs from the paper:
batch normalisation before the maximum instead of a bound on the weights' norm, 7×7 filters instead of 8×8, and no
whitening.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MaxoutConvolution(nn.Module):
    """A same-size convolution whose channels are maxima over ``pieces``, then 3×3 max pooling at stride 2."""

    def __init__(self, before: int, after: int, size: int, pieces: int = 2) -> None:
        super().__init__()
        self.pieces = pieces
        self.linear = nn.Conv2d(before, after * pieces, size, padding=size // 2, bias=False)
        self.norm = nn.BatchNorm2d(after * pieces)
        self.pool = nn.MaxPool2d(3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, after, h/2, w/2)."""
        return self.pool(maximum(self.norm(self.linear(x)), self.pieces))


class MaxoutNetwork(nn.Module):
    """Three convolutional maxout layers and a dense one; images (n, channels, h, w) → scores (n, classes)."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int, pieces: int = 5) -> None:
        super().__init__()
        self.pieces = pieces
        self.convolutions = nn.Sequential(
            nn.Dropout(0.2),
            MaxoutConvolution(image_shape[0], 96, 7),
            nn.Dropout(0.5),
            MaxoutConvolution(96, 192, 7),
            nn.Dropout(0.5),
            MaxoutConvolution(192, 192, 5),
            nn.Dropout(0.5),
            nn.Flatten(),
        )
        with torch.no_grad():
            self.convolutions.eval()
            size = self.convolutions(torch.zeros(1, *image_shape)).shape[1]
            self.convolutions.train()
        self.dense = nn.Linear(size, 500 * pieces, bias=False)
        self.norm = nn.BatchNorm1d(500 * pieces)
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(500, classes))

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores of images."""
        return self.head(maximum(self.norm(self.dense(self.convolutions(images))), self.pieces))


def maximum(x: Tensor, pieces: int) -> Tensor:
    """Return the maximum of every ``pieces`` neighbouring channels, shape (n, channels/pieces, ...)."""
    return x.unflatten(1, (-1, pieces)).amax(2)
