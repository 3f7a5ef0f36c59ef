"""Leave-one-out correction of a kernel readout's outputs; beyond the paper.

Least squares pull outputs together: an image between two classes gets too little of both. Had training image i been
left out of (K + εI)·q = Y, its output would have been

    oᵢ = yᵢ - qᵢ / [(K + εI)⁻¹]ᵢᵢ,

exactly and without another fit. If changed copies of the image are rows too, all are left out together: qᵢ are then
their rows, and the diagonal entry is their block. So all training images have outputs much like those of new images.
Their errors, e = y - o, are regressed on o by a Gaussian kernel at some of them:
c(z) = Σⱼ exp(-‖z - oⱼ‖²/(2w²))·bⱼ is then added to z. A formula leaves an image out of this regression, too
(:func:`correct_by_others`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

CENTRES = 1000  # at most, evenly spaced among the training images
WIDTH = 0.5  # w, where a class's output is 0 or 1
RIDGE = 1.0  # of the regression, in units of its kernel
JITTER = 1e-6  # on its diagonal: centres may coincide
ROWS = 10_000  # images at a time
UNSOLVED = "the kernel readout could not be solved. Check the images for extreme values."


@dataclass(frozen=True)
class LeaveOneOutCorrection:
    """A correction of outputs by a function of the outputs."""

    centres: Tensor  # o of some training images, (m, classes)
    coefficients: Tensor  # b, (m, classes)

    def __call__(self, outputs: Tensor) -> Tensor:
        """Return z + c(z) of outputs z (n, classes)."""
        return outputs + nearness(outputs, self.centres.to(outputs)) @ self.coefficients.to(outputs)

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> LeaveOneOutCorrection:
        """Return it on a device, in a floating type if one is given."""
        return LeaveOneOutCorrection(self.centres.to(device, dtype), self.coefficients.to(device, dtype))


def leave_one_out(targets: Tensor, solution: Tensor, blocks: Tensor) -> Tensor:
    """Return o (n, classes) of n images, from the targets Y and the solution q, both (n·c, classes).

    Each image has c consecutive rows, itself first, and ``blocks`` (n, c, c) are those of (K + εI)⁻¹.
    """
    rows = solution.reshape(len(blocks), -1, solution.shape[1])
    left_out: Tensor = torch.linalg.solve(blocks, rows) if blocks.shape[1] > 1 else rows / blocks
    return targets[:: blocks.shape[1]] - left_out[:, 0]


def fit_correction(outputs: Tensor, targets: Tensor) -> LeaveOneOutCorrection:
    """Regress e = Y - o on o, both (n, classes), in float64: A·b = Gᵀe with A = GᵀG + ρG_c, G (n, m), G_c (m, m)."""
    centres, system, right = _equations(outputs, targets)
    return LeaveOneOutCorrection(centres, torch.linalg.solve(system, right))


def correct_by_others(outputs: Tensor, numbers: Tensor, known: Tensor, targets: Tensor) -> Tensor:
    """Correct outputs (m, classes) of the images ``numbers`` (m,), each by a correction that has not seen its image.

    The correction is fitted to outputs ``known`` (n, classes) with targets (n, classes). Without image i, whose row of
    G is gᵢ, its coefficients would be b - A⁻¹gᵢ·(eᵢ - gᵢᵀb) / (1 - gᵢᵀA⁻¹gᵢ). In float64.
    """
    centres, system, right = _equations(known, targets)
    inverse = torch.linalg.inv(system)
    coefficients, found = inverse @ right, []
    for some, rows in zip(torch.split(outputs.double(), ROWS), torch.split(numbers, ROWS), strict=True):
        own, near = known[rows].double(), nearness(some, centres)
        seen = nearness(own, centres)
        solved = seen @ inverse
        unexplained = targets[rows].double() - own - seen @ coefficients
        without = unexplained / (1 - (solved * seen).sum(1, keepdim=True))
        found.append(some + near @ coefficients - (solved * near).sum(1, keepdim=True) * without)
    return torch.cat(found)


def _equations(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the centres (m, classes), A (m, m) and Gᵀe (m, classes) of the regression, in float64."""
    outputs, targets = outputs.double(), targets.double()
    centres = outputs[:: -(-len(outputs) // CENTRES)].clone()
    system, right = RIDGE * nearness(centres, centres), torch.zeros_like(centres)
    system.diagonal().add_(JITTER)
    for known, wanted in zip(torch.split(outputs, ROWS), torch.split(targets, ROWS), strict=True):
        near = nearness(known, centres)
        system += near.T @ near
        right += near.T @ (wanted - known)
    return centres, system, right


def nearness(outputs: Tensor, centres: Tensor) -> Tensor:
    """Return exp(-‖z - o‖²/2w²) of outputs (n, classes) and centres (m, classes), shape (n, m)."""
    squares = outputs.square().sum(1, keepdim=True) + centres.square().sum(1) - 2 * outputs @ centres.T
    return torch.exp(squares.clamp_min(0) / (-2 * WIDTH**2))
