"""Which images filters are drawn from, and under which labels; beyond the paper, which takes all and their classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .distributed.workers import Workers
from .targets import Targets, learnt_output, residuals


@dataclass(frozen=True)
class Draws:
    """What the filter banks are told of all images, of all workers; on the CPU.

    Attributes
    ----------
    labels : Tensor of int64, shape (n,)
    weights : Tensor of float64, shape (n,), or None where all count alike
    """

    labels: Tensor
    weights: Tensor | None = None

    @staticmethod
    def of(number: int, targets: Targets, labels: Tensor, workers: Workers, mine: slice) -> Draws:
        """Return the draws of a layer, counted from 1; the first one's are all images and their classes.

        Parameters
        ----------
        targets : Targets
            Of this worker's images.
        labels : Tensor of int64, shape (n,)
            The classes of all images.
        mine : slice
            Which of them are this worker's.
        """
        config = targets.config
        if number == 1:
            return Draws(labels)

        def of_all(own: Tensor) -> Tensor:
            whole = own.new_zeros(len(labels))
            whole[mine] = own
            workers.add_up(whole)  # each number is one worker's, and zero with the others
            return whole.cpu()

        told, weights = labels, None
        if config.filter_labels == "residual":
            classes = targets.split.output.shape[1]
            signed = of_all(torch.where(targets.positive, targets.labels, targets.labels + classes))
            told = signed if bool((signed != signed[0]).any()) else labels  # else nothing could be told apart
        if config.draw_from != "all":
            found = of_all(_weights(targets))
            weights = found if float(found.sum()) > 0 else None
        return Draws(told, weights)


def _weights(targets: Targets) -> Tensor:
    """Return how often this worker's images are to be drawn: 1 or 0, or ‖R‖, float64, shape (n,)."""
    split, config = targets.split, targets.config
    found = []
    for part in split.parts():
        if config.draw_from == "wrong":
            wrong = learnt_output(split, config, part).argmax(1) != split.labels[part]
            found.append(wrong.double())
        else:
            found.append(residuals(split, config, part).norm(dim=1).double())
    return torch.cat(found)
