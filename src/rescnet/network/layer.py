"""One trained layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..stages.discriminant import LinearHead
from ..stages.images import ValueRange


@dataclass(frozen=True)
class Layer:
    """Everything that one layer has learned.

    Attributes
    ----------
    input_range : ValueRange
        Range by which the layer's input is scaled.
    weights : Tensor, shape (d_i, c, k, k)
    bias : Tensor, shape (d_i,)
    head : LinearHead
        LDA: C positive groups, then C negative ones. Ridge: C regressions of the residual.
    rate : float
        Learning rate α.
    positive_share : float
        n_p/N; n_n/N is the rest.
    """

    input_range: ValueRange
    weights: Tensor
    bias: Tensor
    head: LinearHead
    rate: float
    positive_share: float

    def to(self, device: torch.device, dtype: torch.dtype) -> Layer:
        """Return the layer on a device, in a floating type."""
        low, high = self.input_range.low.to(device, dtype), self.input_range.high.to(device, dtype)
        return replace(
            self,
            input_range=ValueRange(low, high),
            weights=self.weights.to(device, dtype),
            bias=self.bias.to(device, dtype),
            head=self.head.to(device, dtype),
        )
