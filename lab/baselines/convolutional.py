"""Small CNN of five convolutions, and ResNet-18 for small images."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


def _convolution(before: int, after: int, stride: int = 1, side: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, side, stride, side // 2, bias=False), nn.BatchNorm2d(after))


def small_cnn(image_shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Return a CNN of five 3×3 convolutions, 32 to 128 channels."""
    layers: list[nn.Module] = []
    for before, after in ((image_shape[0], 32), (32, 32), (0, 0), (32, 64), (64, 64), (0, 0), (64, 128)):
        layers += [_convolution(before, after), nn.ReLU(inplace=True)] if after else [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(512, classes))


class Block(nn.Module):
    """Two 3×3 convolutions and a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(before, after, stride), _convolution(after, after)
        same = stride == 1 and before == after
        self.shortcut = nn.Identity() if same else _convolution(before, after, stride, side=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


def resnet18(image_shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Return ResNet-18 (He et al. 2016) for small images: a first convolution of 3×3 at stride 1, no max-pooling."""
    layers: list[nn.Module] = [_convolution(image_shape[0], 64), nn.ReLU(inplace=True)]
    for before, after, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [Block(before, after, stride), Block(after, after, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))
