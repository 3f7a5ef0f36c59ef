"""Dual form of :mod:`rescnet.stages.moments` for fewer images than features: an n×n matrix replaces the D×D one.

Let Z (n, D) be the centred and scaled features of n images, so that A = ZᵀZ/n + γI. The right sides of all heads have
the form Zᵀy, and

    A⁻¹Zᵀy  =  Zᵀ M⁻¹y,      M = ZZᵀ/n + γI.

This takes n²D + n³/3 operations instead of nD² + D³/3: for 1,000 images of the CIFAR network, which has 17,150
features, about a hundredth. Nothing is subtracted, so it is as accurate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from .cholesky import NotPositiveDefiniteError, Solver, cholesky_solver
from .mixed_precision import add_single_gram_
from .moments import CrossSolver, Moments, check_finite, mixed

FEW = 2 / 3  # images per feature: up to here the dual form takes at most about half the operations


@dataclass
class RowMoments(Moments):
    """Sums over images, and the features of each image instead of their Gram matrix.

    Attributes
    ----------
    gram : Tensor, shape (0, 0)
        Empty.
    rows : list of Tensor, each of shape (m, D)
        f - shift.
    targets : list of Tensor, each of shape (m, K)
    """

    rows: list[Tensor] = field(default_factory=list)
    targets: list[Tensor] = field(default_factory=list)
    has_gram: ClassVar[bool] = False

    def _add_pairs(self, shifted: Tensor, targets: Tensor) -> None:
        self.rows.append(shifted.to(self.total.dtype))
        self.targets.append(targets)

    def with_targets(self, columns: slice) -> Self:
        """Return the same sums with only some target columns; no data is copied."""
        return replace(super().with_targets(columns), targets=[targets[:, columns] for targets in self.targets])

    def squares(self) -> Tensor:
        """Return Σ (f - shift)², shape (D,)."""
        found = torch.zeros_like(self.total)
        for rows in self.rows:
            found += rows.square().sum(0)
        return found

    def solver(self, scale: Tensor, ridge: float, method: Callable[[Tensor], Solver]) -> CrossSolver:
        """Return the solver of A = S + γI of scaled features; ``method``, which is for D×D matrices, is not used."""
        if not bool(scale.any()):  # all features are constant
            return lambda moments, mix: torch.zeros_like(mixed(moments.cross.T, mix))
        if ridge <= 0:
            raise NotPositiveDefiniteError("ridge must be positive with fewer images than features.")
        z = torch.cat(self.rows).sub_(self.mean_offset).mul_(scale)
        inner = z.new_zeros(len(z), len(z))
        add_single_gram_(inner, z.T)
        check_finite(inner.diagonal())
        inner.mul_(1 / self.count).diagonal().add_(ridge)
        solve = cholesky_solver(inner)

        def solve_cross(moments: Moments, mix: Tensor | None) -> Tensor:
            assert isinstance(moments, RowMoments)
            return z.T @ solve(mixed(moments.deviations(), mix))

        return solve_cross

    def deviations(self) -> Tensor:
        """Return y, shape (n, K): deviations of the targets from their mean, divided by n; Zᵀy is the scaled cross."""
        return (torch.cat(self.targets) - self.target_total / self.count).div_(self.count)
