"""Stage 7, first half: streamed sums from which all heads are solved.

For features f (D numbers) and targets z (K numbers: a one-hot group, or a residual) of each image::

    n = Σ 1      Σ f      G = Σ f fᵀ      Σ z      Σ z fᵀ

With weights w, each term is multiplied by w; they are 1 on average, so n stays the number of images.
The sums add over chunks of images and over processes, so no feature matrix is stored. Features are shifted by an
approximate mean before they are summed: the scatter stays the same, and float32 sums do not cancel.

With fewer images than features, :class:`RowMoments` avoids G by the dual form. Let Z (n, D) be the centred and scaled
features of n images, so that A = ZᵀZ/n + γI. The right sides of all heads have the form Zᵀy, and

    A⁻¹Zᵀy  =  Zᵀ M⁻¹y,      M = ZZᵀ/n + γI.

This takes n²D + n³/3 operations instead of nD² + D³/3: for 1,000 images of the CIFAR network, which has 17,150
features, about a hundredth. Nothing is subtracted, so it is as accurate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeAlias

import torch
from torch import Tensor

from ..base.errors import NumericalError
from ..numerics.linear_algebra import (
    CACHED_ROWS,
    LEAST_COLUMNS,
    NotPositiveDefiniteError,
    Solver,
    accurate_product,
    add_gram_,
    add_single_gram_,
    cholesky_solver,
)
from ..numerics.threads import in_threads

CrossSolver: TypeAlias = "Callable[[Moments, Tensor | None], Tensor]"
"""Function (moments, mix) → A⁻¹Xᵀ·mix, shape (D, K'), where X (K, D) is the scaled ``centred_cross`` of the moments."""


@dataclass
class Moments:
    """Sums over images of features and targets."""

    shift: Tensor  # (D,), subtracted from every feature vector before it is summed
    count: int
    total: Tensor  # Σ (f - shift), (D,)
    gram: Tensor  # Σ (f - shift)(f - shift)ᵀ, (D, D); of a large matrix only the lower triangle is computed and read
    target_total: Tensor  # Σ z, (K,)
    cross: Tensor  # Σ z (f - shift)ᵀ, (K, D)
    weighted: bool = False
    has_gram: ClassVar[bool] = True

    @classmethod
    def zeros(cls, shift: Tensor, targets: int) -> Self:
        """Return empty sums for features like ``shift`` (D,) and ``targets`` target columns."""
        size = len(shift)
        return cls(
            shift=shift,
            count=0,
            total=shift.new_zeros(size),
            gram=shift.new_zeros((size, size) if cls.has_gram else (0, 0)),
            target_total=shift.new_zeros(targets),
            cross=shift.new_zeros(targets, size),
        )

    @staticmethod
    def pair_bytes(images: int, features: int, itemsize: int) -> int:
        """Return the bytes of the Gram matrix, the scatter and its factor."""
        return 3 * features**2 * itemsize

    def add(self, features: Tensor, targets: Tensor, weights: Tensor | None = None) -> None:
        """Add a chunk: ``features`` (n, D), ``targets`` (n, K), and the images' ``weights`` (n,), if any."""
        shifted, root = self.shifted(features), None
        self.count += len(features)
        exact = shifted.dtype == self.cross.dtype
        if weights is None:
            self.total += shifted.sum(0, dtype=self.total.dtype)
            self.target_total += targets.sum(0)
        else:  # √w in both factors of a product is w
            root = weights.sqrt().to(shifted.dtype).to(targets.dtype)[:, None]
            shifted, targets, self.weighted = shifted.mul_(root), targets * root, True
            self.total += (shifted.T @ root if exact else accurate_product(shifted.T, root))[:, 0]
            self.target_total += (targets * root).sum(0)
        if exact:
            self.cross.addmm_(targets.T, shifted)
        else:
            self.cross += accurate_product(shifted.T, targets).T
        self._add_pairs(shifted, targets, root)

    def shifted(self, features: Tensor) -> Tensor:
        """Return features (n, D) minus the shift."""
        return features - self.shift.to(features.dtype)

    def _add_pairs(self, shifted: Tensor, targets: Tensor, root: Tensor | None) -> None:
        """Add Σ (f - shift)(f - shift)ᵀ of ``shifted`` (n, D); all are times ``root`` (n, 1), if any."""
        if shifted.dtype == torch.float16:
            add_gram_(self.gram, shifted)
        else:
            add_single_gram_(self.gram, shifted.to(self.gram.dtype))

    @property
    def rounding(self) -> float:
        """Largest difference of two sums of weights that is rounding error. Counts of images have none."""
        return 64 * torch.finfo(self.target_total.dtype).eps * self.count if self.weighted else 0.0

    @property
    def mean_offset(self) -> Tensor:
        """Mean feature minus the shift, shape (D,)."""
        return self.total / self.count

    @property
    def mean(self) -> Tensor:
        """Mean feature, shape (D,)."""
        return self.shift + self.mean_offset

    def scatter(self) -> Tensor:
        """Return the total scatter S, the covariance of all features about their mean (divided by n), shape (D, D).

        It has only a lower triangle if the Gram matrix does.
        """
        return (self.gram / self.count).addr_(self.mean_offset, self.mean_offset, alpha=-1)

    def scaled_scatter(self, scale: Tensor) -> Tensor:
        """Return the scatter of features times ``scale`` (D,), in a new matrix; its lower triangle is valid."""
        return self.scatter().mul_(scale).mul_(scale[:, None])

    def variances(self) -> Tensor:
        """Return the diagonal of the scatter, shape (D,); zero where it is only rounding error."""
        mean_square = self.squares() / self.count
        variances = mean_square - self.mean_offset.square()
        eps = torch.finfo(variances.dtype).eps
        floor = 32 * eps * mean_square + (4 * eps * self.shift).square()
        return torch.where(variances > floor, variances, 0)

    def squares(self) -> Tensor:
        """Return Σ (f - shift)², shape (D,)."""
        return self.gram.diagonal()

    def solver(self, scale: Tensor, ridge: float, method: Callable[[Tensor], Solver]) -> CrossSolver:
        """Return the solver of A = S + γI of scaled features; right sides are sums over the same images.

        ``scale`` (D,) is the factor of each feature, 0 for a constant one; γ is the ridge; ``method`` factorises A.
        """
        scatter = self.scaled_scatter(scale)
        check_finite(scatter.diagonal())
        # The row of a constant feature is zero: any positive diagonal keeps the matrix regular.
        scatter.diagonal().add_(ridge).add_((scale == 0).to(scatter.dtype))
        solve = method(scatter)
        return lambda moments, mix: solve(mixed(moments.centred_cross().T, mix).mul_(scale[:, None]))

    def centred_cross(self) -> Tensor:
        """Return Σ z (f - mean)ᵀ / n, shape (K, D)."""
        return (self.cross / self.count).addr_(self.target_total / self.count, self.mean_offset, alpha=-1)

    def with_targets(self, columns: slice) -> Self:
        """Return the same sums with only some target columns; no data is copied."""
        return replace(self, target_total=self.target_total[columns], cross=self.cross[columns])


def mixed(columns: Tensor, mix: Tensor | None) -> Tensor:
    """Return ``columns @ mix``, shape (n, K'), for columns (n, K); without a mix, the columns themselves."""
    return columns if mix is None else columns @ mix


def check_finite(features: Tensor) -> None:
    """Raise an error if features, or sums over them, are NaN or infinite."""
    if not bool(features.isfinite().all()):
        raise NumericalError("features must be finite, got NaN or infinity. An earlier layer may have diverged.")


def row_bytes(width: int, itemsize: int, single: bool = False) -> int:
    """Return the bytes of an image's features while they are summed: as given, and shifted.

    Half precision that is multiplied in ``single`` takes two more copies, in float32: the rows, and a panel of them.
    """
    return (2 * itemsize + (2 * 4 if single else 0)) * width


FEW = 2 / 3  # images per feature: up to here the dual form takes at most about half the operations
FEW_IN_HALF = 1 / 3  # the same in half precision, in which the factor of A is computed, but not that of M


def solves_by_rows(images: int, features: int, half: bool) -> bool:
    """Return whether :class:`RowMoments` are best for these numbers of images and features."""
    return images <= (FEW_IN_HALF if half else FEW) * features


BLOCK_BYTES = 2**28  # of centred and scaled features that are in memory at a time
TILE = 64  # columns: a GPU is fast on multiples of them


@dataclass
class RowMoments(Moments):
    """Sums over images, and the features of each image instead of their Gram matrix, which is empty, (0, 0).

    The features are those that were added, not a copy: they must not change until the heads are solved.
    """

    rows: list[Tensor] = field(default_factory=list)  # f, each (m, D)
    square_total: Tensor | float = 0.0  # Σ (f - shift)², (D,)
    targets: list[Tensor] = field(default_factory=list)  # each (m, K)
    roots: list[Tensor] = field(default_factory=list)  # √w, each (m, 1), which targets are multiplied by
    has_gram: ClassVar[bool] = False

    @staticmethod
    def pair_bytes(images: int, features: int, itemsize: int) -> int:
        """Return the bytes of the products of images, their factor, and a block of scaled features, also in halves."""
        block = min(BLOCK_BYTES, images * features * itemsize)
        return 2 * images**2 * itemsize + 3 * block // 2

    def add(self, features: Tensor, targets: Tensor, weights: Tensor | None = None) -> None:
        """Add a chunk, and keep its features."""
        super().add(features, targets, weights)
        self.rows.append(features)

    def _add_pairs(self, shifted: Tensor, targets: Tensor, root: Tensor | None) -> None:
        self.square_total = self.square_total + column_squares(shifted, self.total.dtype)
        self.targets.append(targets)
        if root is not None:
            self.roots.append(root)

    def with_targets(self, columns: slice) -> Self:
        """Return the same sums with only some target columns; no data is copied."""
        return replace(super().with_targets(columns), targets=[targets[:, columns] for targets in self.targets])

    def squares(self) -> Tensor:
        """Return Σ (f - shift)², shape (D,)."""
        assert isinstance(self.square_total, Tensor)  # images were added
        return self.square_total

    def solver(self, scale: Tensor, ridge: float, method: Callable[[Tensor], Solver]) -> CrossSolver:
        """Return the solver of A = S + γI of scaled features; ``method``, which is for D×D matrices, is not used."""
        if not bool(scale.any()):  # all features are constant
            return lambda moments, mix: torch.zeros_like(mixed(moments.cross.T, mix))
        if ridge <= 0:
            raise NotPositiveDefiniteError("ridge must be positive with fewer images than features.")
        inner = self.total.new_zeros(self.count, self.count)
        few = self.count * len(scale) * scale.itemsize <= BLOCK_BYTES
        blocks = list(self._blocks(scale)) if few else None
        for z in blocks or self._blocks(scale):
            (add_gram_ if z.dtype == torch.float16 else add_single_gram_)(inner, z.T)
        check_finite(inner.diagonal())
        inner.mul_(1 / self.count).diagonal().add_(ridge)
        solve = cholesky_solver(inner)

        def solve_cross(moments: Moments, mix: Tensor | None) -> Tensor:
            assert isinstance(moments, RowMoments)
            solution = solve(mixed(moments.deviations(), mix))
            half = self.rows[0].dtype == torch.float16
            times = accurate_product if half else torch.matmul
            return torch.cat([times(z.T, solution) for z in blocks or self._blocks(scale)])

        return solve_cross

    def deviations(self) -> Tensor:
        """Return y, shape (n, K): deviations of the targets from their mean, divided by n; Zᵀy is the scaled cross."""
        joined, mean = torch.cat(self.targets), self.target_total / self.count
        joined = joined.addr_(torch.cat(self.roots)[:, 0], mean, alpha=-1) if self.roots else joined.sub_(mean)
        return joined.div_(self.count)

    def _blocks(self, scale: Tensor) -> Iterator[Tensor]:
        """Yield Z, some columns at a time, each (n, d): centred features times their scale, and √w, if any.

        They are in half precision if the features are.
        """
        wide, offset = self.shift.dtype, self.mean_offset
        width = max(1, BLOCK_BYTES // (self.count * wide.itemsize * TILE)) * TILE
        for start in range(0, len(scale), width):
            here = slice(start, start + width)
            z = scale.new_empty(self.count, len(scale[here]))
            for rows, part in zip(self.rows, torch.split(z, [len(rows) for rows in self.rows]), strict=True):
                torch.sub(rows[:, here].to(wide), self.shift[here], out=part)
            z.sub_(offset[here])
            if self.roots:
                z.mul_(torch.cat(self.roots))
            z.mul_(scale[here])
            yield z.half() if self.rows[0].dtype == torch.float16 else z


def column_squares(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sum of squares of each column of ``x`` (n, D), in a type at least as wide, shape (D,)."""
    if x.is_cuda:  # without a copy in the wider type
        norms: Tensor = torch.linalg.vector_norm(x, dim=0, dtype=dtype)
        return norms.square()
    return in_threads(lambda columns: _squares(columns.T, dtype), x.T, least=LEAST_COLUMNS)


def _squares(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sum of squares of each column in pieces: ``vector_norm`` takes up to a hundred times as long."""
    if torch.compiler.is_compiling():  # an exported graph would have a node per piece
        return x.double().square().sum(0).to(dtype)
    squares = x.new_zeros(x.shape[1], dtype=torch.float64)
    for part in torch.split(x, CACHED_ROWS):
        squares += part.to(dtype).square().sum(0)
    return squares.to(dtype)
