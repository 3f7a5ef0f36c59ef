"""From the network's outputs to probabilities.

Ỹ is not a probability: a layer may push a class below zero or above λ, and rows sum to anything. Probabilities are its
softmax at one fixed temperature, a twentieth of λ: a class that leads another by 0.1 λ is e² = 7.4 times as likely. The
temperature was chosen by log loss on held-out digits and a few small CIFAR-10 runs that were not kept.

Where no output is as far as 0.1 λ from zero, that temperature is lowered with the largest of them, so that a class that
has it is e² times as likely as one at zero. A network of few training images may claim an image for no class: log-odds
are minus hundreds or thousands, their sigmoids all next to nothing, as 1e-9 and 1e-30. The largest is right for about
half of such digits, and not for a tenth, as a softmax would have it that cannot tell them from zero.

Outputs that differ too little to be told apart by this, as 1e-20 and 1e-30 beside -0.2, are still ranked: each class is
less likely than the one before it by a billionth at least.

They are scores: nothing is calibrated on the images at hand. With few training images they are too sure, and too even
under the ``softmax`` posterior, whose outputs differ little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .network import Network

TEMPERATURE = 0.05  # of λ
LARGEST = 2.0  # output of an image, in temperatures, at least
SMALLEST = 1e-300  # temperature, where all outputs are zero
APART = 1e-9  # logarithm of how much likelier a class is than the next, at least


def probabilities(outputs: Tensor, ceiling: float) -> Tensor:
    """Return a probability for each class: rows sum to 1, in the order ``outputs`` rank the classes.

    Parameters
    ----------
    outputs : Tensor, shape (n, C)
        Ỹ after any layer.
    ceiling : float
        What a class should reach: λ of the configuration, or :func:`target_output` of a network.

    Returns
    -------
    Tensor of float64, shape (n, C)

    Examples
    --------
    >>> probabilities(torch.tensor([[0.58, 0.5, -0.3]]), 0.8).round(decimals=3)
    tensor([[0.8810, 0.1190, 0.0000]], dtype=torch.float64)
    """
    outputs = outputs.double()
    largest = outputs.abs().amax(1, keepdim=True)
    temperature = (largest / LARGEST).clamp(SMALLEST, TEMPERATURE * max(ceiling, 1e-9))
    places = outputs.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    return torch.softmax(outputs / temperature - APART * places, dim=1)


def target_output(network: Network) -> float:
    """Return the output a class should reach: λ after the layers, 1 with a readout, which learns what they leave."""
    return network.config.ceiling if network.readout is None else 1.0
