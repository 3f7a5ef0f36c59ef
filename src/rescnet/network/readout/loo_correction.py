"""Leave-one-out correction of a kernel readout's outputs; beyond the paper.

Least squares pull outputs together: an image between two classes gets too little of both. Had training image i been
left out of (K + εI)·q = Y, its output would have been

    oᵢ = yᵢ - qᵢ / [(K + εI)⁻¹]ᵢᵢ,

exactly and without another fit. If changed copies of the image are rows too, all are left out together: qᵢ are then
their rows, and the diagonal entry is their block. So all training images have outputs much like those of new images.
Their errors, e = y - o, are regressed on o by a Gaussian kernel at some of them:
δ(z) = Σⱼ exp(-‖z - oⱼ‖²/(2w²))·bⱼ is then added to z. A formula leaves an image out of this regression, too.
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


@dataclass(frozen=True, eq=False)
class LeaveOneOutCorrection:
    """A correction of outputs by a function of the outputs."""

    centres: Tensor  # o of some training images, (m, classes)
    coefficients: Tensor  # b, (m, classes)

    def __call__(self, outputs: Tensor) -> Tensor:
        """Return z + δ(z) of outputs z (n, classes)."""
        return outputs + nearness(outputs, self.centres.to(outputs)) @ self.coefficients.to(outputs)

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> LeaveOneOutCorrection:
        """Return it on a device, in a floating type if one is given."""
        return LeaveOneOutCorrection(self.centres.to(device, dtype), self.coefficients.to(device, dtype))


def leave_one_out(targets: Tensor, solution: Tensor, blocks: Tensor) -> Tensor:
    """Return o (n, classes) of n images, from the targets Y and the solution q, both (n·p, classes).

    Each image has p consecutive rows, itself first, and ``blocks`` (n, p, p) are those of (K + εI)⁻¹.
    """
    rows = solution.reshape(len(blocks), -1, solution.shape[1])
    left_out: Tensor = torch.linalg.solve(blocks, rows) if blocks.shape[1] > 1 else rows / blocks
    return targets[:: blocks.shape[1]] - left_out[:, 0]


@dataclass(frozen=True)
class ErrorRegression:
    """The regression of the errors e = Y - o of known outputs o on these, in float64.

    A·b = Gᵀe with A = GᵀG + ρG_c, G (n, m), G_c (m, m).
    """

    known: Tensor  # o, (n, classes)
    targets: Tensor  # Y, (n, classes)
    centres: Tensor  # (m, classes)
    inverse: Tensor  # of H = GᵀG + ridge, (m, m)
    coefficients: Tensor  # b, (m, classes)

    @staticmethod
    def of(outputs: Tensor, targets: Tensor) -> ErrorRegression:
        """Regress the errors of outputs (n, classes) of images with targets (n, classes)."""
        outputs, targets = outputs.double(), targets.double()
        centres = outputs[:: -(-len(outputs) // CENTRES)].clone()
        system, right = RIDGE * nearness(centres, centres), torch.zeros_like(centres)
        system.diagonal().add_(JITTER)
        for known, wanted in zip(torch.split(outputs, ROWS), torch.split(targets, ROWS), strict=True):
            near = nearness(known, centres)
            system += near.T @ near
            right += near.T @ (wanted - known)
        factor = torch.linalg.cholesky(system)
        solution = torch.cholesky_solve(right, factor)
        return ErrorRegression(outputs, targets, centres, torch.cholesky_inverse(factor), solution)

    @property
    def correction(self) -> LeaveOneOutCorrection:
        """The correction of new outputs."""
        return LeaveOneOutCorrection(self.centres, self.coefficients)

    def corrected(self) -> Tensor:
        """Return the known outputs, each corrected without its image, (n, classes)."""
        numbers = torch.arange(len(self.known), device=self.known.device)
        return torch.cat([self._corrected(None, rows) for rows in torch.split(numbers, ROWS)])

    def corrected_others(self, outputs: Tensor, numbers: Tensor) -> Tensor:
        """Return other outputs (k, classes) of the images ``numbers`` (k,), each corrected without its image."""
        parts = zip(torch.split(outputs.double(), ROWS), torch.split(numbers, ROWS), strict=True)
        return torch.cat([self._corrected(some, rows) for some, rows in parts])

    def _corrected(self, outputs: Tensor | None, rows: Tensor) -> Tensor:
        """Return outputs of some rows, by default the known ones, each corrected by the regression without its row.

        Without row i, which is gᵢ in G, the coefficients would be b - H⁻¹gᵢ·(eᵢ - gᵢᵀb) / (1 - gᵢᵀH⁻¹gᵢ). The centres
        stay.
        """
        known = self.known[rows]
        own = nearness(known, self.centres)
        solved = own @ self.inverse
        unexplained = self.targets[rows] - known - own @ self.coefficients
        without = unexplained / (1 - (solved * own).sum(1, keepdim=True))
        near = own if outputs is None else nearness(outputs, self.centres)
        change = near @ self.coefficients - (solved * near).sum(1, keepdim=True) * without
        return (known if outputs is None else outputs) + change


def nearness(outputs: Tensor, centres: Tensor) -> Tensor:
    """Return exp(-‖z - o‖²/2w²) of outputs (n, classes) and centres (m, classes), shape (n, m)."""
    squares = outputs.square().sum(1, keepdim=True) + centres.square().sum(1) - 2 * outputs @ centres.T
    return torch.exp(squares.clamp_min(0) / (-2 * WIDTH**2))
