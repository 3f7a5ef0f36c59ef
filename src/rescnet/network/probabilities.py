"""Probabilities from the network's outputs.

Ỹ is not a probability: outputs may be below zero or above λ, and rows do not sum to 1. Probabilities are the softmax of
Ỹ at a fixed temperature of λ/20: a class that leads another by 0.1 λ is e² = 7.4 times as likely. The temperature was
chosen by log loss on validation digits and a few small CIFAR-10 runs that were not kept.

If all outputs of an image are within 0.1 λ of zero, the temperature is lowered in proportion to the largest of them. A
class with this output is then e² times as likely as one at zero. This happens with few training images: the log-odds of
all classes are minus hundreds, and their sigmoids almost zero, e.g. 1e-9 and 1e-30. The largest of them is right for
about half of such digits.

Outputs that differ by less than the softmax resolves, e.g. 1e-20 and 1e-30 next to -0.2, keep their rank: each class is
less likely than the one before it by at least a billionth.

The probabilities are not calibrated. They are too extreme with few training images, and too even with the ``softmax``
posterior, whose outputs differ little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .network import Network

TEMPERATURE = 0.05  # of λ
LARGEST = 2.0  # lower limit of an image's largest output, in temperatures
SMALLEST = 1e-300  # lower limit of the temperature, if all outputs are zero
APART = 1e-9  # least difference of log-probability between two ranks


def probabilities(outputs: Tensor, ceiling: float) -> Tensor:
    """Return a probability for each class, float64, (n, C); rows sum to 1 and rank the classes like ``outputs``.

    Outputs (n, C) are Ỹ after any layer. The ceiling is the target output of the correct class: λ of the configuration,
    or :func:`target_output` of a network.

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
    """Return the target output of the correct class: λ for the layers, 1 with a readout."""
    return network.config.ceiling if network.readout is None else 1.0
