"""Stage 8: residuals, the labels and signs derived from them, and the update (section 2.3.3, Algorithm 1)."""

from __future__ import annotations

import torch
from torch import Tensor


def residual(targets: Tensor, output: Tensor, ceiling: float) -> Tensor:
    """Return R = λY - Ỹ (equation 5), shape (n, classes); Y are the one-hot ``targets``, λ is the ``ceiling``."""
    return ceiling * targets - output


def labels_and_signs(residuals: Tensor) -> tuple[Tensor, Tensor]:
    """Return each image's new label T and sign s (equations 6 and 7), int64 and bool, shapes (n,).

    T is the class of the largest absolute residual, the first one if several are equal. s is true if that residual is
    positive or zero (s = +1, add), and false if it is negative (s = -1, subtract).
    """
    labels = residuals.abs().argmax(1)
    return labels, residuals.gather(1, labels[:, None])[:, 0] >= 0


def signed_one_hot(labels: Tensor, positive: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Return the one-hot groups of the images, shape (n, 2C): C positive classes, then C negative ones."""
    return one_hot(torch.where(positive, labels, labels + classes), 2 * classes, dtype)


def one_hot(labels: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Return Y, shape (n, classes), without the 8-byte integers of PyTorch's own ``one_hot``."""
    return torch.zeros(len(labels), classes, dtype=dtype, device=labels.device).scatter_(1, labels[:, None], 1)


def compensate(
    output: Tensor,
    rate: float,
    positive_share: float,
    positive: Tensor,
    negative_share: float,
    negative: Tensor,
) -> Tensor:
    """Return Ỹ⁽ⁱ⁾ = Ỹ⁽ⁱ⁻¹⁾ + α [n_p/N · Ỹ_p - n_n/N · Ỹ_n] (equations 8 and 11)."""
    return output + rate * (positive_share * positive - negative_share * negative)
