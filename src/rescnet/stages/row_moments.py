"""The sums of :mod:`rescnet.stages.moments` where images are fewer than features: rows in place of the Gram matrix.

With Z (n, D) the features of n images, centred and scaled, A = κ/n·ZᵀZ + γI, and by Woodbury's identity

    A⁻¹b  =  (b - κ/n·Zᵀ M⁻¹ Z b) / γ,      M = κ/n·ZZᵀ + γI,

which factorises n×n numbers instead of D×D: n²D + n³/3 operations in place of nD² + D³/3. A thousand images of the
CIFAR network, which has 17,150 features, need a fortieth. One step of refinement makes up for the difference above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .half_products import GramProducts, add_single_gram_
from .moments import Moments, check_finite
from .solving import NotPositiveDefiniteError, Solver, cholesky_solver

FEW = 2 / 3  # images for each feature: with no more, rows take at most about half the operations


@dataclass
class RowMoments(Moments):
    """Sums over images, and the images' features themselves.

    Attributes
    ----------
    gram : Tensor, shape (0, 0)
        There is none.
    rows : list of Tensor, each of shape (m, D)
        f - shift, times the root of the image's weight.
    roots : list of Tensor, each of shape (m, 1)
        Those roots; ones without weights.
    """

    rows: list[Tensor] = field(default_factory=list)
    roots: list[Tensor] = field(default_factory=list)

    @staticmethod
    def zeros(shift: Tensor, targets: int, products: GramProducts = "auto") -> RowMoments:
        """Return empty sums for features like ``shift`` (D,) and ``targets`` target columns."""
        size = len(shift)
        return RowMoments(
            shift=shift,
            count=0,
            total=shift.new_zeros(size),
            gram=shift.new_zeros(0, 0),
            target_total=shift.new_zeros(targets),
            cross=shift.new_zeros(targets, size),
            products=products,
        )

    def _add_pairs(self, shifted: Tensor, weights: Tensor | None) -> None:
        self.rows.append(shifted.to(self.total.dtype))
        self.roots.append(shifted.new_ones(len(shifted), 1) if weights is None else weights.sqrt()[:, None])

    def squares(self) -> Tensor:
        """Return Σ (f - shift)², shape (D,)."""
        found = torch.zeros_like(self.total)
        for rows in self.rows:
            found += rows.square().sum(0)
        return found

    def scatter(self) -> Tensor:
        """Return the total scatter, shape (D, D); for comparison, no head needs it."""
        rows = torch.cat(self.rows)
        return (rows.T @ rows / self.count).addr_(self.mean_offset, self.mean_offset, alpha=-1)

    def solver(self, scale: Tensor, kept: float, added: float, method: Callable[[Tensor], Solver]) -> Solver:
        """Return what solves with A = κS + γI of scaled features; ``method`` is for matrices of features alone."""
        if added <= 0:
            raise NotPositiveDefiniteError("there are fewer images than features, so that some ridge is needed.")
        z = torch.cat(self.rows)
        for part, roots in zip(torch.split(z, [len(rows) for rows in self.rows]), self.roots, strict=True):
            part.addcmul_(roots.to(part.dtype), self.mean_offset, value=-1).mul_(scale)
        share = kept / self.count
        inner = z.new_zeros(len(z), len(z))
        add_single_gram_(inner, z.T, tf32=False)
        inner.mul_(share)
        check_finite(inner.diagonal())
        inner.diagonal().add_(added)
        solve_inner = cholesky_solver(inner)

        def once(right: Tensor) -> Tensor:
            return torch.addmm(right, z.T, solve_inner(z @ right), alpha=-share).div_(added)

        def solve(right: Tensor) -> Tensor:
            x = once(right)
            missed = torch.addmm(right - added * x, z.T, z @ x, alpha=-share)
            return x.add_(once(missed))

        return solve
