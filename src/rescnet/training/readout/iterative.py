"""The readout's system for many images: preconditioned conjugate gradients.

K is recomputed tile by tile from the codes, so memory grows with N and not with N². The preconditioner is K̂ + μI, where
K̂ = K_nm K_mm⁻¹ K_mn is the Nyström approximation at m of the images, the landmarks, and μ is ε plus the mean diagonal
of K - K̂. By the Woodbury identity

    μ (K̂ + μI)⁻¹ = I - K_nm (μ K_mm + K_mn K_nm)⁻¹ K_mn.

Leave-one-out outputs need the diagonal of (K + εI)⁻¹. It is estimated by random signs v, which are more right sides:
E[v ⊙ (K + εI)⁻¹v] is the diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from math import isqrt

import torch
from torch import Tensor

from ...base.errors import NumericalError
from ...config.network import NetworkConfig
from ...fused import halves_of_exp
from ...network.memory import too_little
from ...numerics.code_kernel import Codes, code_kernel
from ...numerics.linear_algebra import (
    NotPositiveDefiniteError,
    accurate_product,
    cholesky_factor,
    factor_solve,
    growing_ridges,
    product,
    split,
)
from ..workers import Workers
from .system import UNSOLVED, Solution

LANDMARKS = 8192, 24_576  # of the preconditioner, at most: up to 250,000 rows, and from 750,000
ROWS_PER_LANDMARK = 32  # between these
LEAST_LANDMARKS = 64
PER_PAIR = 2 * 3 * 8  # bytes per pair of landmarks: three matrices in float64, and as much for tiles of the kernel
VECTORS = 8  # matrices (N, K) that conjugate gradients hold, K right sides
PROBES = 32  # random signs that estimate the diagonal of the inverse
TOLERANCE = 1e-3  # of conjugate gradients: largest residual of a column, relative to the column
FINISHED = 5 * TOLERANCE  # residual of a finished solution that is computed again: rounding adds up over the steps
LARGEST_RESIDUAL = 0.1  # of a solution that is returned
MOST_STEPS = 200
JITTER = 1e-6  # on the diagonal of K_mm: landmarks may coincide
LARGEST_TILE = 2**28  # entries of K at a time
LARGEST_EXPONENT = 10.0  # e^11 is the largest number in half precision

Progress = Callable[[int, float, Tensor], None]
"""Function (steps so far, relative residual, best solution so far), called after each step of conjugate gradients.

The solution has the columns asked for, then those of random signs; it can be the start of another solution.
"""


def landmarks_for(rows: int, free: int) -> int:
    """Return the number of the preconditioner's landmarks for a number of rows and the bytes that are free.

    Three times the landmarks take about half the steps, and a step takes most of its time for K itself.
    """
    wanted = min(max(LANDMARKS[0], rows // ROWS_PER_LANDMARK), LANDMARKS[1])
    return min(wanted, rows, isqrt(free // PER_PAIR))


def check_least_memory(config: NetworkConfig, rows: int, columns: int, itemsize: int, budget: int) -> int:
    """Return the bytes that conjugate gradients have for landmarks and tiles; raise ValueError if they are too few."""
    held = rows * itemsize * (min(config.readout_size, rows) + VECTORS * (columns + PROBES))
    needed = held + PER_PAIR * min(LEAST_LANDMARKS, rows) ** 2
    if budget < needed:
        what = f"to fit a readout of {rows:,} images{' and copies' if config.rows_per_image > 1 else ''}"
        raise too_little(needed, what, budget, "use a smaller readout_size")
    return budget - held


class KernelProducts:
    """Products with K + εI, recomputed tile by tile; the workers share the tiles on and above the diagonal.

    On a GPU, codes in half precision are multiplied by √(2s), so that one product and one exponential give a tile:
    exp(-s‖c - c'‖²) = e^(-s‖c‖²) · exp(2s c·c' - s‖c'‖²). The first factor is applied to vectors. Tile and vectors
    are split into halves: a tile rounded to half precision would change eigenvalues of K by √N/10,000, more than ε.
    """

    def __init__(
        self, codes: Codes, scale: float, ridge: float, workers: Workers, tile: int, ridge_factors: Tensor | None = None
    ) -> None:
        self.codes, self.scale, self.ridge, self.workers = codes, scale, ridge, workers
        self._ridge_factors = None if ridge_factors is None else ridge_factors[:, None]  # 1/w for a row of weight w
        self.rows, self.tile = workers.shard(len(codes)), tile
        self._side = max(1, min(isqrt(tile), -(-len(codes) // (2 * workers.count))))
        self._scaled: Codes | None = None
        if codes.values.is_cuda and codes.values.dtype == torch.float16:
            scaled = Codes.of(codes.values * (2 * scale) ** 0.5)
            self._scaled = scaled if float(scaled.norms.max()) / 2 < LARGEST_EXPONENT else None

    def times(self, x: Tensor) -> Tensor:
        """Return (K + εI)·x, shape (N, K), for x (N, K)."""
        sizes = x.abs().amax(0).clamp_min(torch.finfo(x.dtype).tiny)
        whole, x = x, x / sizes  # within the range of half precision
        found, factors = torch.zeros_like(x), x.new_ones(1, 1).expand(len(x), 1)
        if self._scaled is not None:
            factors = (self._scaled.norms[:, None] / -2).exp_()
        for row, column in self._own_tiles():
            here, there = slice(row, row + self._side), slice(column, column + self._side)
            halves = self._tile(here, there)
            found[here] += factors[here] * _times(halves, x[there])
            if column > row:
                found[there] += _times([half.T for half in halves], factors[here] * x[here])
        self.workers.all_reduce(found)
        weighted = whole if self._ridge_factors is None else whole * self._ridge_factors
        return found.mul_(sizes).add_(weighted, alpha=self.ridge)

    def _own_tiles(self) -> Iterator[tuple[int, int]]:
        """Yield the first row and column of this worker's tiles."""
        starts = range(0, len(self.codes), self._side)
        tiles = ((row, column) for row in starts for column in starts if column >= row)
        return islice(tiles, self.workers.rank, None, self.workers.count)

    def _tile(self, rows: slice, columns: slice) -> list[Tensor]:
        """Return a tile of K, but for the first factor on a GPU; as two halves if codes are in half precision."""
        if self._scaled is not None:
            left, right = self._scaled[rows], self._scaled[columns]
            return halves_of_exp(torch.addmm(right.norms / -2, left.values, right.values.T, out_dtype=torch.float32))
        near = code_kernel(self.codes[rows], self.codes[columns], self.scale)
        return list(split(near)) if self.codes.values.dtype == torch.float16 else [near]


def _times(halves: list[Tensor], x: Tensor) -> Tensor:
    """Return the sum of a tile's halves, or the tile, times x."""
    if len(halves) == 1:
        return halves[0] @ x
    return accurate_product(halves[0], x).add_(product(halves[1], x.half()))


class NystromPreconditioner:
    """μ(K̂ + μI)⁻¹ for the Nyström approximation K̂ of K at some of the images."""

    def __init__(self, products: KernelProducts, landmarks: int, seed: int) -> None:
        codes, self._products = products.codes, products
        chosen = torch.randperm(len(codes), generator=torch.Generator().manual_seed(seed))[:landmarks].sort().values
        self._landmarks = codes[chosen.to(codes.norms.device)]
        among = code_kernel(self._landmarks, self._landmarks, products.scale).double()
        among.diagonal().fill_(1 + JITTER)
        total = torch.zeros_like(among)
        for _, near in self._parts():
            total.addmm_(near.double().T, near.double())
        products.workers.all_reduce(total)
        factor = cholesky_factor(among)
        left = torch.linalg.solve_triangular(factor, total, upper=False)  # tr K̂ = tr(K_mm⁻¹ K_mn K_nm)
        trace = float(torch.linalg.solve_triangular(factor, left.T, upper=False).diagonal().sum())
        shift = products.ridge + max(0.0, 1 - trace / len(codes))
        self._factor = cholesky_factor(among.mul_(shift).add_(total))

    def __call__(self, x: Tensor) -> Tensor:
        """Return μ(K̂ + μI)⁻¹x, shape (N, K).

        The middle factor is kept in two parts. Rounded to float32, it would change x along the largest eigenvector of
        K, whose eigenvalue grows like N: with 1,000,000 rows by as much as the residual.
        """
        inner = x.new_zeros(len(self._landmarks), x.shape[1])
        for part, near in self._parts():
            inner.addmm_(near.T, x[part])
        self._products.workers.all_reduce(inner)
        exact = factor_solve(self._factor, inner.double())
        inner = exact.to(x.dtype)
        rest, found = (exact - inner).to(x.dtype), torch.zeros_like(x)
        for part, near in self._parts():
            found[part] = (near @ rest).addmm_(near, inner)
        self._products.workers.all_reduce(found)
        return x - found

    def _parts(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield this worker's rows of K_nm, part by part."""
        products = self._products
        size = max(1, products.tile // max(1, len(self._landmarks)))
        for row in range(products.rows.start, products.rows.stop, size):
            part = slice(row, min(row + size, products.rows.stop))
            yield part, code_kernel(products.codes[part], self._landmarks, products.scale)


def solve_iteratively(
    products: KernelProducts,
    right: Tensor,
    landmarks: int,
    seed: int,
    diagonal: bool,
    progress: Progress | None = None,
    start: Tensor | None = None,
) -> Solution:
    """Solve the system for right sides (N, K) by conjugate gradients with a preconditioner at some landmarks.

    ``start`` has the columns of an earlier, interrupted solution (:data:`Progress`). Others after them say that it was
    finished. A start of another shape is ignored. All workers have all codes and right sides, and return the same
    solution. ε becomes larger where the steps do not converge.
    """
    for tried in growing_ridges(products.ridge):
        products.ridge = tried
        try:
            found = _descend(products, right, landmarks, seed, diagonal, progress, start)
            if found.residual <= LARGEST_RESIDUAL:
                return found
        except NotPositiveDefiniteError:
            continue
    raise NumericalError(UNSOLVED)


def _descend(
    products: KernelProducts,
    right: Tensor,
    landmarks: int,
    seed: int,
    diagonal: bool,
    progress: Progress | None,
    start: Tensor | None,
) -> Solution:
    """Take steps of conjugate gradients until the residual is small."""
    signs = torch.zeros(len(right), PROBES * diagonal)
    signs = signs.bernoulli_(generator=torch.Generator().manual_seed(seed)).mul_(2).sub_(1).to(right)
    both = torch.cat([right, signs], dim=1)
    precondition: NystromPreconditioner | None = None
    tiny, lengths = torch.finfo(right.dtype).tiny, both.norm(dim=0).clamp_min(1e-30)
    was_finished = start is not None and start.shape[1] > both.shape[1]
    start = None if start is None else start[:, : both.shape[1]]
    fits = start is not None and start.shape == both.shape
    x = start.to(both, copy=True) if start is not None and fits else torch.zeros_like(both)
    residual = both - products.times(x) if fits else both.clone()
    search: Tensor | None = None
    last, before = residual, residual[0]
    worst, steps = float((residual.norm(dim=0) / lengths).max()), 0
    best, best_x = worst, x.clone()
    goal = FINISHED if was_finished and best <= FINISHED else TOLERANCE
    while best > goal and steps < MOST_STEPS and worst < 100 * best:
        precondition = precondition or NystromPreconditioner(products, landmarks, seed)
        direction = precondition(residual)
        rho = (residual * direction).sum(0)
        if search is None:
            search = direction
        else:  # the flexible form, which tolerates rounding in the preconditioner
            search = direction + ((residual - last) * direction).sum(0) / before.clamp_min(tiny) * search
        image = products.times(search)
        length = rho / (search * image).sum(0).clamp_min(tiny)
        last, before = residual, rho
        x, residual = x.addcmul_(length.expand_as(search), search), residual - length * image
        worst, steps = float((residual.norm(dim=0) / lengths).max()), steps + 1
        if worst < best:
            best, best_x = worst, best_x.copy_(x)
        if progress:
            progress(steps, worst, best_x)
    x, found = best_x, None
    if diagonal:  # the diagonal of (K + εI)⁻¹ lies between these bounds
        found = (signs * x[:, right.shape[1] :]).mean(1).clamp_(1 / (1 + products.ridge), 1 / products.ridge)
    blocks = None if found is None else found[:, None, None]
    return Solution(x[:, : right.shape[1]], blocks, products.ridge, steps, best, x)
