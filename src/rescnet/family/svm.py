"""One-vs-rest linear SVM: minimise ½‖(w, b)‖² + C Σ max(0, 1 - y(xᵀw + b))².

On a CPU, features are sparse and scikit-learn's ``LinearSVC`` (liblinear) is the solver. It needs 28 bytes per non-zero
number and cannot use a GPU. MNIST has 430 million such numbers, CIFAR-10 ten times as many. If memory is short, and on
a GPU, Newton's method with conjugate gradients (Keerthi and DeCoste 2005) minimises the same function. It solves all
classes at once and needs only products with the features. ``tests/family`` compares the two solvers.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..stages.discriminant import LinearHead
from .svm_features import MOST_NUMBERS, DenseFeatures, Features, SparseFeatures

LIBLINEAR_BYTES = 28  # per number: a float64 and its column, and liblinear's copy of both
LIBLINEAR_TOLERANCE = 0.1  # liblinear's default for the dual, used by PCANet's authors; scikit-learn's is 1e-4
LIBLINEAR_SHARE = 0.5  # largest share of the memory for liblinear
SPARSE_BYTES = 8  # per number: a float32 and its column
SPARSE_SHARE = 0.6  # largest share of the memory for a sparse matrix and its copy
MOST_ROUNDS = 1000  # of liblinear
NEWTON_STEPS, CG_STEPS = 60, 60
SHRINKS = 20  # largest number of halvings of a step

logger = logging.getLogger(__name__)


def fit_svm(
    features: Any, labels: Tensor, classes: int, cost: float, seed: int, memory: int, tolerance: float = 0.01
) -> LinearHead:
    """Fit a one-vs-rest linear SVM.

    Parameters
    ----------
    features : Tensor or SciPy CSR matrix of float32, shape (n, D)
        A tensor on a GPU may be in half precision.
    labels : Tensor of int64, shape (n,)
        Every class has an image.
    memory : int
        Bytes available.
    tolerance : float
        Tolerance of Newton's method; liblinear uses its own.
    """
    columns = features.shape[1]
    if isinstance(features, Tensor):
        return newton_svm(DenseFeatures(features), columns, labels.to(features.device), classes, cost, tolerance)
    if features.nnz > MOST_NUMBERS:
        raise ValueError(
            f"histograms must have at most {MOST_NUMBERS:,} non-zero numbers, got {features.nnz:,}. Use a GPU, fewer "
            f"filters or images, or a coarser pyramid."
        )
    if LIBLINEAR_BYTES * features.nnz > LIBLINEAR_SHARE * memory:
        copy = 2 * SPARSE_BYTES * features.nnz <= SPARSE_SHARE * memory
        return newton_svm(SparseFeatures(features, copy), columns, labels, classes, cost, tolerance)
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
    features: Features, columns: int, labels: Tensor, classes: int, cost: float, tolerance: float = 0.01
) -> LinearHead:
    """Fit the SVM of all classes at once by Newton's method.

    Parameters
    ----------
    columns : int
        D.
    labels : Tensor of int64, shape (n,)
        On the device of the features.
    tolerance : float
        A class stops at this fraction of the norm of its first gradient.
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
