"""Whether an exported file computes what the network does: on random images, to rounding, and to what rounding decides.

Sums in another order differ in the last digits, 1e-6 or so in the outputs. Now and then that is enough to decide: a
block that varies about as little as makes it flat (``stages/second_order.py``) is flat in one computation and z-scored
in the other, and the outputs jump, by 1e-4 to 1e-3. That happens to the network itself when the last digit of a pixel
changes, and the oftener the more views a prediction is the mean of: each is pooled, and any may hold such a block. So a
greater difference than the tolerance is let pass where the network itself moves as far, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..network.network import Network

Run = Callable[[Tensor], Tensor]
"""What an exported file computes: images (n, c, h, w) → outputs (n, classes)."""

IMAGES = 8
DRAWS = 32  # changes of the last digits that are tried on an image whose outputs differ
LAST_DIGITS = 8 * torch.finfo(torch.float32).eps  # of the range of the images


def differences(network: Network, run: Run, tolerance: float) -> tuple[Tensor, Tensor]:
    """Return random images in the training range, and how far the file is from the network on each, shape (n,).

    The first image goes through the file alone, the others together. Where all outputs are within the tolerance of
    zero, and one of them clearly leads, another answer of the file is as far off as can be.
    """
    low, high = _range(network)
    generator = torch.Generator().manual_seed(0)
    images = low + (high - low) * torch.rand(IMAGES, *network.image_shape, generator=generator)
    outputs = torch.cat([run(images[:1]), run(images[1:])])
    expected = network.outputs(images)
    first, second = expected.topk(2, dim=1).values.unbind(1)
    largest = expected.abs().amax(1)
    clear = (largest <= tolerance) & (first - second > largest / 2)
    otherwise = clear & (outputs.argmax(1) != expected.argmax(1))
    return images, (outputs - expected).abs().amax(1).masked_fill(otherwise, torch.inf)


def unsteadiness(network: Network, images: Tensor) -> Tensor:
    """Return how far the outputs of each image move when its pixels change in their last digits, shape (n,)."""
    low, high = _range(network)
    generator, plain = torch.Generator().manual_seed(1), network.outputs(images)
    found = torch.zeros(len(images))
    for _ in range(DRAWS):
        change = (2 * torch.rand(images.shape, generator=generator) - 1) * LAST_DIGITS * (high - low)
        found = torch.maximum(found, (network.outputs(images + change) - plain).abs().amax(1).float())
    return found


def is_explained(network: Network, images: Tensor, found: Tensor, tolerance: float) -> bool:
    """Return whether each difference (n,) is within the tolerance or no more than twice what the network itself moves.

    Some image must be within: where the network moves on all of them a file cannot be told from another. NaN is not
    explained.
    """
    beyond = ~(found <= tolerance)
    if not bool(beyond.any()):
        return True
    if bool(beyond.all()) or not bool(found.isfinite().all()):
        return False
    return bool((found[beyond] <= 2 * unsteadiness(network, images[beyond])).all())


def _range(network: Network) -> tuple[Tensor, Tensor]:
    """Return the range of the training images, each end (1, channels, 1, 1)."""
    value_range = network.stack.image_range
    return value_range.low.float().view(1, -1, 1, 1), value_range.high.float().view(1, -1, 1, 1)
