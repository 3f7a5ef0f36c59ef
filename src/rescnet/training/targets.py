"""Targets of a layer's heads, chunk by chunk: they grow with the number of classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..config.network import NetworkConfig
from ..stages.residual import labels_and_signs, one_hot, residual, signed_one_hot
from .stream import ImageStream


@dataclass(frozen=True)
class Targets:
    """The new label and sign of each training image (equations 6 and 7); copies learn their own residual.

    Attributes
    ----------
    stream : ImageStream
        Training images, with the output before the layer.
    config : NetworkConfig
    labels : Tensor of int64, shape (n,)
    positive : Tensor of bool, shape (n,)
    """

    stream: ImageStream
    config: NetworkConfig
    labels: Tensor
    positive: Tensor

    @staticmethod
    def of(number: int, stream: ImageStream, config: NetworkConfig) -> Targets:
        """Return the targets of a layer, counted from 1; those of the first are the classes, all positive."""
        if number == 1:
            return Targets(stream, config, stream.labels, torch.ones_like(stream.labels, dtype=torch.bool))
        found = [labels_and_signs(residuals(stream, config, part)) for part in stream.parts()]
        labels, positive = (torch.cat(pieces) for pieces in zip(*found, strict=True))
        return Targets(stream, config, labels, positive)

    def part(self, part: slice) -> Tensor:
        """Return the targets of some images: residuals (n, C) for ridge, else groups (n, 2C)."""
        if self.config.head == "ridge":
            return residuals(self.stream, self.config, part)
        output = self.stream.output
        return signed_one_hot(self.labels[part], self.positive[part], output.shape[1], output.dtype)


def residuals(stream: ImageStream, config: NetworkConfig, part: slice) -> Tensor:
    """Return R of some images, shape (n, C) (equation 5)."""
    output = stream.output[part]
    return residual(one_hot(stream.labels[part], output.shape[1], output.dtype), output, config.ceiling)
