"""What the heads of a layer are to learn of each training image: chunk by chunk, since it grows with the classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..config.network import NetworkConfig
from ..stages.residual import labels_and_signs, one_hot, residual, signed_one_hot
from .distributed.workers import Workers
from .stream import Split


@dataclass(frozen=True)
class Targets:
    """The new label and sign of each training image (equations 6 and 7).

    Attributes
    ----------
    split : Split
        The training images, with the output before the layer.
    config : NetworkConfig
    labels : Tensor of int64, shape (n,)
    positive : Tensor of bool, shape (n,)
    weights : Tensor, shape (n,), or None where all images count alike
        Of mean 1 over the images of all workers.
    """

    split: Split
    config: NetworkConfig
    labels: Tensor
    positive: Tensor
    weights: Tensor | None = None

    @staticmethod
    def of(number: int, split: Split, config: NetworkConfig, workers: Workers | None = None) -> Targets:
        """Return the targets of a layer, counted from 1; of the first they are the classes, all positive."""
        if number == 1:
            return Targets(split, config, split.labels, torch.ones_like(split.labels, dtype=torch.bool))
        found = [labels_and_signs(residuals(split, config, part)) for part in split.parts()]
        labels, positive = (torch.cat(pieces) for pieces in zip(*found, strict=True))
        weights = margin_weights(split, config, workers or Workers()) if config.margin_weights else None
        return Targets(split, config, labels, positive, weights)

    def part(self, part: slice) -> Tensor:
        """Return what the heads learn of some images: residuals (n, C) for ridge, else groups (n, 2C)."""
        if self.config.head == "ridge":
            return residuals(self.split, self.config, part)
        output = self.split.output
        return signed_one_hot(self.labels[part], self.positive[part], output.shape[1], output.dtype)


def margin_weights(split: Split, config: NetworkConfig, workers: Workers) -> Tensor | None:
    """Return (1 - m) + m·‖R‖/mean ‖R‖ of each image, shape (n,): the less is left to correct, the less it counts."""
    norms = torch.cat([residuals(split, config, part).norm(dim=1) for part in split.parts()])
    total = norms.sum(dtype=torch.float64)[None]
    workers.add_up(total)
    mean = float(total) / workers.total(len(norms))
    return 1 - config.margin_weights + config.margin_weights / mean * norms if mean > 0 else None


def residuals(split: Split, config: NetworkConfig, part: slice) -> Tensor:
    """Return R of some images, shape (n, C) (equation 5); that of a copy is its image's, or its own."""
    output = learnt_output(split, config, part)
    return residual(one_hot(split.labels[part], output.shape[1], output.dtype), output, config.ceiling)


def learnt_output(split: Split, config: NetworkConfig, part: slice) -> Tensor:
    """Return the output some images are corrected at, shape (n, C); that of a copy is its image's, or its own."""
    output = split.ahead(part)
    if split.copies > 1 and config.copy_residuals == "shared":
        numbers = torch.arange(part.start, part.start + len(output), device=output.device)
        output = split.ahead(numbers // split.copies * split.copies)
    return output
