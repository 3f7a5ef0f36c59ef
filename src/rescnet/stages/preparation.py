"""Before stage 1, if asked for: contrast made even, then colours and neighbours decorrelated. Not in the paper.

*Contrast*: from each pixel the mean of the window around it, over all channels, is taken, and what is left is divided
by the window's standard deviation, or by the mean such deviation where that is larger, so that flat regions stay flat.

*Whitening* (ZCA): patches with covariance C become E(Λ + εI)^(-1/2)Eᵀ(p - mean): decorrelated, and as near to the patch
as can be. The rows of that matrix that make the middle pixel are a filter a channel: the image is filtered by them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from .convolution import convolve
from .images import ValueRange
from .patches import PatchMoments

PARTS = ("floor", "weights", "bias", "low", "high")


@dataclass(frozen=True)
class Preparation:
    """What images go through before the first layer.

    Attributes
    ----------
    window : int
        Side of the window of contrast; 0: left as it is.
    floor : Tensor, shape ()
        Least deviation contrast is divided by.
    weights : Tensor, shape (channels, channels, k, k)
        Whitening filters; k is 0 where there is no whitening.
    bias : Tensor, shape (channels,)
    low, high : Tensor, shape (channels,)
        The range of the training images before all this.
    """

    window: int
    floor: Tensor
    weights: Tensor
    bias: Tensor
    low: Tensor
    high: Tensor

    def __call__(self, images: Tensor) -> Tensor:
        """Return images (n, channels, h, w), of any type, prepared, in the type of the weights."""
        x = images.to(self.weights.dtype)
        if self.window:
            x = even_contrast(x, self.window, self.floor)
        if self.weights.shape[-1]:
            # Mirrored at the border: zeros would be edges that no image has.
            x = _filtered(x, self.weights, self.bias)
        return x

    @property
    def image_range(self) -> ValueRange:
        """The range of the training images."""
        return ValueRange(self.low, self.high)

    def to(self, device: torch.device, dtype: torch.dtype) -> Preparation:
        """Return it on a device, in a floating type."""
        return replace(self, **{name: getattr(self, name).to(device, dtype) for name in PARTS})

    @staticmethod
    def of_contrast(window: int, floor: Tensor, low: Tensor, high: Tensor) -> Preparation:
        """Return one that whitens nothing."""
        channels = len(low)
        nothing = floor.new_zeros(channels, channels, 0, 0)
        return Preparation(window, floor, nothing, floor.new_zeros(channels), low, high)


def even_contrast(images: Tensor, window: int, floor: Tensor) -> Tensor:
    """Return images whose every window has mean zero and, unless flat, deviation one; shape (n, channels, h, w)."""
    mean, deviation = window_moments(images, window)
    return (images - mean) / torch.maximum(deviation, floor).clamp_min(torch.finfo(images.dtype).tiny)


def window_moments(images: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of the window around each pixel, over channels, each (n, 1, h, w)."""
    centre = images.mean((1, 2, 3), keepdim=True)  # differences of squares cancel less about it
    x = images - centre
    first, second = (_window_mean(moment.mean(1, keepdim=True), window) for moment in (x, x.square()))
    return first + centre, (second - first.square()).clamp_min(0).sqrt()


def whitening_filters(moments: PatchMoments, channels: int, ridge: float) -> tuple[Tensor, Tensor]:
    """Return the whitening of the middle pixel of patches: filters (channels, channels, k, k), bias (channels,).

    Parameters
    ----------
    moments : PatchMoments
        Sums over patches of channels·k·k numbers.
    ridge : float
        ε, relative to the mean of Λ.
    """
    values, vectors = torch.linalg.eigh(moments.covariance())
    values = values.clamp_min(0)
    scale = (values + ridge * values.mean().clamp_min(torch.finfo(values.dtype).tiny)).rsqrt()
    whole = (vectors * scale) @ vectors.T
    pixels = len(whole) // channels
    side = round(pixels**0.5)
    rows = torch.arange(channels, device=whole.device) * pixels + pixels // 2
    weights = whole[rows]
    return weights.view(channels, channels, side, side), -(weights @ moments.mean())


def _window_mean(x: Tensor, window: int) -> Tensor:
    return F.avg_pool2d(x, window, stride=1, padding=window // 2, count_include_pad=False)


def _filtered(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """Filter images (n, channels, h, w), mirrored at the border, by ``convolve``, which keeps float32 on a GPU.

    Pixels far from zero cancel here: in TF32 what is left would be mostly rounding.
    """
    (height, width), border = x.shape[2:], weights.shape[-1] // 2
    padded = F.pad(x, (border,) * 4, mode="reflect")
    return convolve(padded, weights, bias)[:, :, border : border + height, border : border + width]
