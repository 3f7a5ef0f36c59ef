"""Stage 1: min-max scaling of a layer's input, and the concatenation of maps and image (sections 2.3.1 and 3.2.1).

"The only data preprocessing was min-max normalisation applied to the input of each convolutional layer." The paper
does not say which values share a range:

* ``"global"``: one range for the whole input, so channels keep their relative strength.
* ``"source"``: one range for the maps and one for the image, so that neither dominates.
* ``"channel"``: one range per channel.

The image is scaled once as the first layer's input. From the second layer on it is scaled again as part of the input.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..config.network import Scope

INPUT_COPIES = 3  # of [maps ; image] in memory: joined, less its minimum, and scaled


@dataclass(frozen=True, eq=False)
class ValueRange:
    """Smallest and largest value of each channel over the training images.

    With the scope ``global`` all channels have the same pair; with ``source``, all maps do.
    """

    low: Tensor  # (channels,)
    high: Tensor  # (channels,)

    @staticmethod
    def of(x: Tensor) -> ValueRange:
        """Return the range of each channel of ``x`` (n, channels, height, width)."""
        everywhere = (0, *range(2, x.dim()))
        return ValueRange(x.amin(everywhere), x.amax(everywhere))

    @property
    def ends(self) -> tuple[float, float]:
        """Smallest and largest value of all channels."""
        return float(self.low.min()), float(self.high.max())

    def merge(self, other: ValueRange) -> ValueRange:
        """Return the range of both sets of images, e.g. of two chunks."""
        return ValueRange(torch.minimum(self.low, other.low), torch.maximum(self.high, other.high))

    def beside(self, image: ValueRange) -> ValueRange:
        """Return the range of ``[maps ; image]``, where ``self`` is the range of the maps."""
        return ValueRange(torch.cat([self.low, image.low]), torch.cat([self.high, image.high]))

    def with_scope(self, scope: Scope, maps: int = 0) -> ValueRange:
        """Return the range by which each channel is scaled; the first ``maps`` channels are maps."""
        if scope == "channel":
            return self
        if scope == "source" and maps:
            parts = [ValueRange(self.low[part], self.high[part]) for part in (slice(maps), slice(maps, None))]
            of_maps, of_image = (part.with_scope("global") for part in parts)
            return of_maps.beside(of_image)
        return ValueRange(self.low.min().expand_as(self.low), self.high.max().expand_as(self.high))


def min_max_scale(x: Tensor, value_range: ValueRange) -> Tensor:
    """Map ``[low, high]`` to [0, 1], channel by channel of ``x`` (n, channels, ...); a constant channel becomes zero.

    New images may exceed the fitted range; they are not clipped.
    """
    shape = (1, -1) + (1,) * (x.dim() - 2)
    low = value_range.low.view(shape)
    span = value_range.high.view(shape) - low
    return (x - low) * torch.where(span > torch.finfo(x.dtype).tiny, 1 / span, 0)


def concatenate(maps: Tensor | None, images: Tensor) -> Tensor:
    """Return the input X⁽ⁱ⁺¹⁾ of the next layer: ``[maps ; image]`` along the channels (section 2.3.1).

    Maps (n, d_i, height, width), None before the first layer, and images (n, d, height, width).
    """
    return images if maps is None else torch.cat([maps, images], dim=1)
