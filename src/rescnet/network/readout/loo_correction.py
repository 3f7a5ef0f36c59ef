"""Leave-one-out correction of a kernel readout's outputs; beyond the paper.

Least squares pull outputs together: an image between two classes gets too little of both. Had training image i been
left out of (K + εI)·q = Y, its output would have been

    oᵢ = yᵢ - qᵢ / [(K + εI)⁻¹]ᵢᵢ,

exactly and without another fit. If changed copies of the image are rows too, all are left out together: qᵢ are then
their rows, and the diagonal entry is their block. So all training images have outputs much like those of new images.
Their errors, y - o, are regressed on o by a Gaussian kernel at some of them: c(z) = Σⱼ exp(-‖z - oⱼ‖²/(2w²))·bⱼ is then
added to z.
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
    """Regress Y - o on o, both (n, classes), in float64: b solves (GᵀG + ρG_c)·b = Gᵀ(Y - o), G (n, m), G_c (m, m)."""
    outputs, targets = outputs.double(), targets.double()
    centres = outputs[:: -(-len(outputs) // CENTRES)].clone()
    system, right = RIDGE * nearness(centres, centres), torch.zeros_like(centres)
    system.diagonal().add_(JITTER)
    for known, wanted in zip(torch.split(outputs, ROWS), torch.split(targets, ROWS), strict=True):
        near = nearness(known, centres)
        system += near.T @ near
        right += near.T @ (wanted - known)
    return LeaveOneOutCorrection(centres, torch.linalg.solve(system, right))


def nearness(outputs: Tensor, centres: Tensor) -> Tensor:
    """Return exp(-‖z - o‖²/2w²) of outputs (n, classes) and centres (m, classes), shape (n, m)."""
    squares = outputs.square().sum(1, keepdim=True) + centres.square().sum(1) - 2 * outputs @ centres.T
    return torch.exp(squares.clamp_min(0) / (-2 * WIDTH**2))
