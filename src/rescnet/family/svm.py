"""One-vs-rest linear SVM: minimise ½‖(w, b)‖² + C Σ max(0, 1 - y(xᵀw + b))².

On a CPU, features are sparse and scikit-learn's ``LinearSVC`` (liblinear) is the solver. It needs 28 bytes per non-zero
number and cannot use a GPU. MNIST has 430 million such numbers. If memory is short, and on a GPU, Newton's method with
conjugate gradients (Keerthi and DeCoste 2005) minimises the same function. It solves all classes at once and needs only
products with the features. ``tests/family`` compares the two solvers.
"""

from __future__ import annotations

import logging
import warnings
from concurrent.futures import ThreadPoolExecutor
from operator import matmul
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..base.errors import ConfigError
from ..numerics.linear_algebra import accurate_product
from ..stages.discriminant import LinearHead

MOST_NUMBERS = 2**31 - 1  # non-zero numbers that liblinear takes; numbers of one product on a GPU
LIBLINEAR_BYTES = 28  # per number: a float64 and its column, and liblinear's copy of both
LIBLINEAR_TOLERANCE = 0.1  # liblinear's default for the dual, used by PCANet's authors; scikit-learn's is 1e-4
LIBLINEAR_SHARE = 0.5  # largest share of the memory for liblinear
MOST_ROUNDS = 1000  # of liblinear
NEWTON_STEPS, CG_STEPS = 60, 60
PANEL = 4096  # columns per panel: their right-hand side, ten numbers each, stays in a core's cache
SHRINKS = 20  # largest number of halvings of a step
ALIGNED_COLUMNS = 8  # tensor cores take rows of a multiple of 16 bytes

logger = logging.getLogger(__name__)


def fit_svm(
    features: Any, labels: Tensor, classes: int, cost: float, seed: int, memory: int, tolerance: float = 0.01
) -> LinearHead:
    """Fit a one-vs-rest linear SVM to features (n, D) and labels (n,), with an image of every class.

    Features are a tensor, on a GPU also in half precision, or a SciPy CSR matrix of float32. ``memory`` is in bytes.
    ``tolerance`` is that of Newton's method; liblinear uses its own.
    """
    columns = features.shape[1]
    if isinstance(features, Tensor):
        return newton_svm(DenseFeatures(features), columns, labels.to(features.device), classes, cost, tolerance)
    if features.nnz > MOST_NUMBERS:
        raise ConfigError(
            f"histograms must have at most {MOST_NUMBERS:,} non-zero numbers, got {features.nnz:,}. Use a GPU, fewer "
            f"filters or images, or a coarser pyramid."
        )
    if LIBLINEAR_BYTES * features.nnz > LIBLINEAR_SHARE * memory:
        return newton_svm(SparseFeatures(features), columns, labels, classes, cost, tolerance)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    svm = LinearSVC(C=cost, dual=True, tol=LIBLINEAR_TOLERANCE, random_state=seed, max_iter=MOST_ROUNDS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        svm.fit(features.astype(np.float64), labels.cpu().numpy())
    if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
        logger.info("liblinear did not converge in %d rounds.", MOST_ROUNDS)
    weights, bias = torch.from_numpy(svm.coef_.T).float(), torch.from_numpy(svm.intercept_).float()
    if classes == 2:  # liblinear returns the score of the second class only
        weights, bias = torch.cat([-weights, weights], dim=1), torch.cat([-bias, bias])
    return LinearHead(weights.contiguous(), bias, torch.ones(classes, dtype=torch.bool))


def newton_svm(
    features: DenseFeatures | SparseFeatures,
    columns: int,
    labels: Tensor,
    classes: int,
    cost: float,
    tolerance: float = 0.01,
) -> LinearHead:
    """Fit the SVM of all classes at once by Newton's method, from features (n, D) and labels (n,) on one device.

    A class stops at ``tolerance`` times the norm of its first gradient.
    """
    device, dtype = labels.device, features.dtype
    sides = 2 * torch.nn.functional.one_hot(labels, classes).to(dtype) - 1  # y, (n, K)
    weights = torch.zeros(columns + 1, classes, dtype=dtype, device=device)  # the last row is the bias

    def times(v: Tensor) -> Tensor:
        return features.times(v[:-1].contiguous()) + v[-1]

    def transposed(r: Tensor) -> Tensor:
        return torch.cat([features.transposed_times(r), r.sum(0, keepdim=True)])

    def value(w: Tensor, f: Tensor) -> Tensor:
        return 0.5 * w.square().sum(0) + cost * (1 - sides * f).clamp_min(0).square().sum(0)

    scores = torch.zeros_like(sides)
    first: Tensor | None = None
    for _ in range(NEWTON_STEPS):
        slack = (1 - sides * scores).clamp_min(0)
        gradient = weights - 2 * cost * transposed(sides * slack)
        norm = gradient.norm(dim=0)
        first = norm if first is None else first
        going = norm > tolerance * first
        if not bool(going.any()):
            break
        active = (slack > 0).to(dtype)
        step = _conjugate_gradients(lambda v, a=active: v + 2 * cost * transposed(a * times(v)), -gradient * going)
        change = times(step)
        before, slope = value(weights, scores), (gradient * step).sum(0)
        length = going.to(dtype)
        for _ in range(SHRINKS):
            worse = value(weights + length * step, scores + length * change) > before + 1e-4 * length * slope
            if not bool((worse & going).any()):
                break
            length = torch.where(worse, length / 2, length)
        weights, scores = weights + length * step, scores + length * change
    else:
        logger.info("Newton's method did not converge in %d steps.", NEWTON_STEPS)
    present = torch.ones(classes, dtype=torch.bool, device=device)
    return LinearHead(weights[:-1].contiguous(), weights[-1].clone(), present)


def _conjugate_gradients(product: Any, right: Tensor, accuracy: float = 0.05) -> Tensor:
    """Solve A x = right for each column of ``right``, (D, K), up to ``accuracy`` times its norm."""
    solution, residual = torch.zeros_like(right), right.clone()
    direction, square = residual.clone(), residual.square().sum(0)
    wanted = accuracy**2 * square
    tiny = torch.finfo(right.dtype).tiny
    for _ in range(CG_STEPS):
        going = square > wanted
        if not bool(going.any()):
            break
        image = product(direction)
        step = going * square / (direction * image).sum(0).clamp_min(tiny)
        solution += step * direction
        residual -= step * image
        after = residual.square().sum(0)
        direction = residual + torch.where(going, after / square.clamp_min(tiny), 0) * direction
        square = after
    return solution


class DenseFeatures:
    """Features X as a tensor (n, D); products of half precision are summed in float32."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix
        self.dtype = torch.float32 if matrix.dtype == torch.float16 else matrix.dtype

    def times(self, right: Tensor) -> Tensor:
        """Return X·right, (D, K) → (n, K)."""
        return self._product(self.matrix, right)

    def transposed_times(self, right: Tensor) -> Tensor:
        """Return Xᵀ·right, (n, K) → (D, K)."""
        return self._product(self.matrix.T, right)

    @staticmethod
    def _product(left: Tensor, right: Tensor) -> Tensor:
        if left.dtype != torch.float16:
            return left @ right
        # Half precision has no numbers below 6e-8, but a gradient does: columns are scaled to a maximum of one.
        scale = right.abs().amax(0).clamp_min(torch.finfo(right.dtype).tiny)
        aligned = F.pad(right / scale, (0, -right.shape[1] % ALIGNED_COLUMNS))
        return _in_parts(left, aligned)[:, : right.shape[1]] * scale


def _in_parts(left: Tensor, right: Tensor) -> Tensor:
    """Return left·right, half and single precision, from parts of ``left`` with at most ``MOST_NUMBERS`` numbers."""
    rows, columns = left.shape
    if left.is_contiguous():
        parts = torch.split(left, max(1, MOST_NUMBERS // columns))
        return torch.cat([accurate_product(part, right) for part in parts])
    total = right.new_zeros(rows, right.shape[1])
    step = max(1, MOST_NUMBERS // rows)
    for part, below in zip(torch.split(left, step, dim=1), torch.split(right, step), strict=True):
        total += accurate_product(part, below)
    return total


class SparseFeatures:
    """Features X as panels of columns of a SciPy CSR matrix of float32 (n, D), multiplied in threads.

    Panels are a copy. Products are about twice as fast as with the whole matrix, because the right-hand side of a
    panel stays in the cache. The result does not depend on the number of threads.
    """

    def __init__(self, matrix: Any) -> None:
        self.dtype = torch.float32
        self._starts = range(0, matrix.shape[1], PANEL)
        self._panels = [matrix[:, start : start + PANEL] for start in self._starts]

    def times(self, right: Tensor) -> Tensor:
        """Return X·right, (D, K) → (n, K)."""
        below = np.split(right.numpy(), self._starts[1:])
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            return torch.from_numpy(sum(pool.map(matmul, self._panels, below)))

    def transposed_times(self, right: Tensor) -> Tensor:
        """Return Xᵀ·right, (n, K) → (D, K)."""
        beside = right.numpy()
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            return torch.from_numpy(np.concatenate(list(pool.map(lambda panel: panel.T @ beside, self._panels))))
