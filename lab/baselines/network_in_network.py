"""Network in Network (Lin et al. 2013): convolutions followed by 1×1 ones, a global average instead of a dense head.

Differs from the paper: batch normalisation after every convolution.
"""

from __future__ import annotations

from torch import Tensor, nn


def convolution(before: int, after: int, size: int) -> nn.Sequential:
    """Return a same-size convolution, normalised and rectified."""
    return nn.Sequential(
        nn.Conv2d(before, after, size, padding=size // 2, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
    )


class NetworkInNetwork(nn.Module):
    """Three blocks of three convolutions; images (n, channels, h, w) → scores (n, classes)."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            convolution(image_shape[0], 192, 5),
            convolution(192, 160, 1),
            convolution(160, 96, 1),
            nn.MaxPool2d(3, 2, 1),
            nn.Dropout(dropout),
            convolution(96, 192, 5),
            convolution(192, 192, 1),
            convolution(192, 192, 1),
            nn.AvgPool2d(3, 2, 1),
            nn.Dropout(dropout),
            convolution(192, 192, 3),
            convolution(192, 192, 1),
            nn.Conv2d(192, classes, 1),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores of images."""
        return self.layers(images).mean((2, 3))
