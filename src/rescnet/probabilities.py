"""From the network's outputs to probabilities.

Ỹ is not a probability: a layer may push a class below zero or above λ, and rows sum to anything. Probabilities are its
softmax at one fixed temperature, a twentieth of λ: a class that leads another by 0.1 λ is e² = 7.4 times as likely. The
temperature was chosen by log loss on held-out digits and a few small CIFAR-10 runs that were not kept. Nothing is
calibrated on the images at hand: under the ``softmax`` posterior, whose outputs differ little, probabilities are too
even.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .network import Network

TEMPERATURE = 0.05  # of λ


def probabilities(outputs: Tensor, ceiling: float) -> Tensor:
    """Return a probability for each class: rows sum to 1, in the order ``outputs`` rank the classes.

    Parameters
    ----------
    outputs : Tensor, shape (n, C)
        Ỹ after any layer.
    ceiling : float
        What a class should reach: λ of the configuration, or :func:`aim_of` a network.

    Returns
    -------
    Tensor of float64, shape (n, C)

    Examples
    --------
    >>> probabilities(torch.tensor([[0.58, 0.5, -0.3]]), 0.8).round(decimals=3)
    tensor([[0.8810, 0.1190, 0.0000]], dtype=torch.float64)
    """
    return torch.softmax(outputs.double() / (TEMPERATURE * max(ceiling, 1e-9)), dim=1)


def aim_of(network: Network) -> float:
    """Return the output a class should reach: λ after the layers, 1 with a readout, which learns what they leave."""
    return network.config.ceiling if network.readout is None else 1.0
