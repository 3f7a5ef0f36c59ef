"""ResNet-18 (He et al. 2016) for small images: the first convolution is 3×3 at stride 1, and no pooling follows it."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Two 3×3 convolutions and a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.around = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        inner = F.relu(self.first_norm(self.first(x)), inplace=True)
        return F.relu(self.second_norm(self.second(inner)) + self.around(x), inplace=True)


class ResNet18(nn.Module):
    """Four stages of two blocks, 64 to 512 channels; images (n, channels, h, w) → scores (n, classes)."""

    def __init__(self, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(image_shape[0], 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)
        )
        blocks, before = [], 64
        for after, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [Block(before, after, stride), Block(after, after, 1)]
            before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores of images."""
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))
