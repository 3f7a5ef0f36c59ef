"""Comparison of an exported file with the network, on random images.

Sums in another order differ in their last digits, which changes the outputs by about 1e-6. Sometimes such a digit
decides: a block with hardly any variance (``stages/second_order.py``) is flat in one computation and z-scored in the
other. The outputs then jump by 1e-4 to 1e-3. The same happens to the network itself when the last digit of a pixel
changes, and more often with several test views. A difference above the tolerance is therefore accepted where the
network itself changes as much, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..network.network import Network

Run = Callable[[Tensor], Tensor]
"""Function of an exported file: images (n, c, h, w) → outputs (n, classes)."""

IMAGES = 8
DRAWS = 32  # random changes of the last digits per image whose outputs differ
LAST_DIGITS = 8 * torch.finfo(torch.float32).eps  # of the range of the images


def differences(network: Network, run: Run, tolerance: float) -> tuple[Tensor, Tensor]:
    """Return random images in the training range, and the largest difference of each one's outputs, shape (n,).

    The file gets the first image alone and the others together. If all outputs of an image are below the tolerance and
    one is clearly the largest, another predicted class counts as an infinite difference.
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
    """Return how much the outputs of each image change with the last digits of its pixels, shape (n,)."""
    low, high = _range(network)
    generator, plain = torch.Generator().manual_seed(1), network.outputs(images)
    found = torch.zeros(len(images))
    for _ in range(DRAWS):
        change = (2 * torch.rand(images.shape, generator=generator) - 1) * LAST_DIGITS * (high - low)
        found = torch.maximum(found, (network.outputs(images + change) - plain).abs().amax(1).float())
    return found


def is_explained(network: Network, images: Tensor, found: Tensor, tolerance: float) -> bool:
    """Return whether each difference (n,) is within the tolerance, or at most twice the change of the network itself.

    At least one image must be within the tolerance; otherwise any file would pass. NaN is never explained.
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
