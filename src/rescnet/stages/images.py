"""Stage 1: min-max scaling of a layer's input, and the concatenation of maps and image (section 2.3.1, 3.2.1).

"The only data preprocessing was min-max normalisation applied to the input of each convolutional layer." The paper
does not say over what the extremes are taken. ``"global"`` takes one pair for the whole input, so channels keep their
relative strength; ``"channel"`` takes one pair per channel; ``"source"`` takes one pair for the maps and one for the
image, so that neither drowns the other. From the second layer on the image, scaled by itself as the first layer's
input, is scaled a second time, with the maps or beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..config.choices import Scope


@dataclass(frozen=True)
class ValueRange:
    """The least and greatest value of each channel, over all images seen.

    Attributes
    ----------
    low, high : Tensor, shape (channels,)
        With the ``global`` scope every channel holds the same pair, with ``source`` those of one source do.
    """

    low: Tensor
    high: Tensor

    @staticmethod
    def of(x: Tensor) -> ValueRange:
        """Return the range of each channel of ``x`` (n, channels, height, width)."""
        everywhere = (0, *range(2, x.dim()))
        return ValueRange(x.amin(everywhere), x.amax(everywhere))

    def merge(self, other: ValueRange) -> ValueRange:
        """Return the range of both sets of images: ranges stream, chunk by chunk."""
        return ValueRange(torch.minimum(self.low, other.low), torch.maximum(self.high, other.high))

    def beside(self, image: ValueRange) -> ValueRange:
        """Return the ranges of the channels of ``[maps ; image]``, this being the maps'."""
        return ValueRange(torch.cat([self.low, image.low]), torch.cat([self.high, image.high]))

    def with_scope(self, scope: Scope, maps: int = 0) -> ValueRange:
        """Return the range each channel is scaled by: its own, its source's or everyone's; maps are the first ones."""
        if scope == "channel":
            return self
        if scope == "source" and maps:
            parts = [ValueRange(self.low[part], self.high[part]) for part in (slice(maps), slice(maps, None))]
            of_maps, of_image = (part.with_scope("global") for part in parts)
            return of_maps.beside(of_image)
        return ValueRange(self.low.min().expand_as(self.low), self.high.max().expand_as(self.high))


def min_max_scale(x: Tensor, value_range: ValueRange) -> Tensor:
    """Map ``[low, high]`` to [0, 1], channel by channel; a constant channel becomes zero.

    Parameters
    ----------
    x : Tensor, shape (n, channels, ...)
        New images may leave the fitted range; they are scaled by it all the same, not clipped.
    """
    shape = (1, -1) + (1,) * (x.dim() - 2)
    low = value_range.low.view(shape)
    span = value_range.high.view(shape) - low
    return (x - low) * torch.where(span > torch.finfo(x.dtype).tiny, 1 / span, 0)


def concatenate(maps: Tensor | None, images: Tensor) -> Tensor:
    """Return the input X⁽ⁱ⁺¹⁾ of the next layer: ``[maps ; image]`` along the channels (section 2.3.1).

    Parameters
    ----------
    maps : Tensor, shape (n, d_i, height, width), or None before the first layer
    images : Tensor, shape (n, d, height, width)
    """
    return images if maps is None else torch.cat([maps, images], dim=1)
