"""Probabilities from the network's outputs.

Outputs are not probabilities: they may be below zero or above 1, and rows do not sum to 1. A softmax turns them into
probabilities. The temperature of a kernel readout is the one that suits its leave-one-out outputs best, by log loss, so
its probabilities are calibrated.

Heads know the classes of their training images, so there is nothing to fit a temperature to, and their probabilities
are not calibrated. The temperature is λ/20: a class that leads another by 0.1 λ is e² = 7.4 times as likely. If all
outputs of an image are within 0.1 λ of zero, it is lowered in proportion to the largest of them. This happens with few
training images: the log-odds of all classes are minus hundreds, and their sigmoids almost zero, e.g. 1e-9 and 1e-30.
The largest of them is right for about half of such digits.

Outputs that differ by less than the softmax resolves, e.g. 1e-20 and 1e-30 next to -0.2, keep their rank: each class is
less likely than the one before it by at least a billionth.
"""

from __future__ import annotations

import torch
from torch import Tensor

TEMPERATURE = 0.05  # of λ
LARGEST = 2.0  # lower limit of an image's largest output, in temperatures
SMALLEST = 1e-300  # lower limit of the temperature, if all outputs are zero
APART = 1e-9  # least difference of log-probability between two ranks


TEMPERATURES = [0.02 * 1.1**step for step in range(60)]  # 0.02 to 5.5


def probabilities(outputs: Tensor, ceiling: float, temperature: float | None = None) -> Tensor:
    """Return a probability for each class, float64, (n, C); rows sum to 1 and rank the classes like ``outputs``.

    Outputs (n, C) are Ỹ after any layer, or those of a readout with its ``temperature``. The ceiling is the target
    output of the correct class.

    Examples
    --------
    >>> probabilities(torch.tensor([[0.58, 0.5, -0.3]]), 0.8).round(decimals=3)
    tensor([[0.8810, 0.1190, 0.0000]], dtype=torch.float64)
    """
    outputs = outputs.double()
    largest = outputs.abs().amax(1, keepdim=True)
    of_heads = (largest / LARGEST).clamp(SMALLEST, TEMPERATURE * max(ceiling, 1e-9))
    places = outputs.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    return torch.softmax(outputs / (of_heads if temperature is None else temperature) - APART * places, dim=1)


def fit_temperature(outputs: Tensor, labels: Tensor) -> float:
    """Return the temperature with the smallest log loss of outputs (n, C) of images with these labels (n,)."""
    outputs = outputs.double()
    losses = [torch.nn.functional.cross_entropy(outputs / temperature, labels) for temperature in TEMPERATURES]
    return TEMPERATURES[int(torch.stack(losses).argmin())]
