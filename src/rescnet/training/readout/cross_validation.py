"""Outputs of training images that the readout has not seen: codes and coefficients are fitted to the others.

Leave-one-out outputs (:mod:`rescnet.network.readout.loo_correction`) take the codes as given. Few images determine
their own principal components. So those outputs are less decided than outputs of new images, and a temperature fitted
to them gives probabilities that are too large. Here components are computed without the images that are predicted.

All follows from the products G of the images' sketches. With centred products G = U (NΛ) Uᵀ of the training rows, the
codes are U (NΛ)^½ Λ^(-p/2), and a row of products g with them has the code g U (NΛ)^(-½) Λ^(-p/2).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...config.network import NetworkConfig
from ...network.probabilities import fit_temperature
from ...network.readout.loo_correction import ErrorRegression, LeaveOneOutCorrection, leave_one_out
from ...numerics.code_kernel import Codes, code_kernel, kernel_scale, median_squared_distance
from ...numerics.linear_algebra import eigen
from ...numerics.threads import in_threads
from .encoder import LEAST_VARIANCE_OF_FEW, WHITENING, eigenvector_operations
from .system import solve_exactly, system_operations

FOLDS = 5
FEW_ROWS = 2000  # up to which all folds are predicted, else two
SPREAD = 1.1  # of outputs of new images, relative to those of folds, if all components are kept
MOST_ROWS = 5000  # the decomposition of their products takes N³ operations


def judge(
    config: NetworkConfig,
    targets: Tensor,
    columns: Tensor,
    blocks: Tensor | None,
    products: Tensor | None,
    size: int,
    ridge: float,
    ridge_factors: Tensor | None,
) -> tuple[LeaveOneOutCorrection | None, float | None, float | None]:
    """Return the correction, the temperature and the accuracy that follow from leave-one-out outputs, if known.

    They are those of a regression of the targets (N, C), with ``columns`` (N, C) as its solution and ``blocks`` of the
    inverse. Those of few images, whose ``products`` are given, are replaced by :func:`cross_validate` in the fit of the
    temperature.
    """
    per_image = config.rows_per_image
    if blocks is None or float(targets.sum(0).max()) <= per_image:  # without its only image, a class is unknown
        return None, None, None
    known, wanted = leave_one_out(targets, columns, blocks), targets[::per_image]
    regression = ErrorRegression.of(known, wanted) if config.loo_correction and len(known) >= FOLDS else None
    outputs = regression.corrected() if regression else known
    accuracy = float((outputs.argmax(1) == wanted.argmax(1)).double().mean())
    if products is not None:
        how = per_image, size, config.kernel_width, ridge, config.seed, ridge_factors
        outputs, numbers = cross_validate(products, targets, *how)
        outputs = regression.corrected_others(outputs, numbers) if regression else outputs
        wanted = wanted[numbers]
    temperature = fit_temperature(outputs, wanted.argmax(1))
    if products is not None and per_image == 1 and size == len(products):
        temperature *= SPREAD
    return regression.correction.to(torch.device("cpu")) if regression else None, temperature, accuracy


def folds_operations(rows: int, size: int) -> int:
    """Return the operations of :func:`cross_validate` on n rows; 0 for more rows than it is used for."""
    kept = rows * (FOLDS - 1) // FOLDS
    each = eigenvector_operations(kept) + system_operations(kept, size)
    return (FOLDS if rows <= FEW_ROWS else 2) * each if rows <= MOST_ROWS else 0


def cross_validate(
    products: Tensor,
    targets: Tensor,
    per_image: int,
    size: int,
    width: float,
    ridge: float,
    seed: int,
    ridge_factors: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return outputs (m, C) of images that the readout was not fitted to, and the numbers (m,) of these images.

    Parameters
    ----------
    products : Tensor, shape (N, N)
        Products of the sketches, about any mean. Each image has ``per_image`` consecutive rows, itself first.
    targets : Tensor, shape (N, C)
    size : int
        Components at most. With fewer than rows, the readout ignores what lies outside of them, and so do the folds.
    width, ridge : float
        Options ``kernel_width`` and ``kernel_ridge``.
    ridge_factors : Tensor, shape (N,), optional
        Factors of the ridge, 1/w for a row of weight w.
    """
    images = len(products) // per_image
    drawn = torch.randperm(images, generator=torch.Generator().manual_seed(seed)).to(products.device)
    few = len(products) <= FEW_ROWS
    held = [drawn[fold::FOLDS].sort().values for fold in range(min(FOLDS if few else 2, images))]

    def predict(out: Tensor) -> Tensor:
        """Return the outputs of the images of a fold."""
        kept = torch.ones(images, dtype=torch.bool, device=products.device)
        kept[out] = False
        rows = kept.repeat_interleave(per_image).nonzero()[:, 0]
        near, far = _codes(products, rows, out * per_image, size)
        scale = kernel_scale(width, median_squared_distance(near))
        factors = None if ridge_factors is None else ridge_factors[rows]
        solution = solve_exactly(near, targets[rows].to(near.values), scale, ridge, 0, factors)
        return code_kernel(far, near, scale) @ solution.columns

    folds = torch.arange(len(held), device=products.device)
    found = in_threads(
        lambda some: torch.cat([predict(held[fold]) for fold in some.tolist()]), folds, least=1 if few else len(held)
    )
    return found, torch.cat(held)


def _codes(products: Tensor, rows: Tensor, others: Tensor, size: int) -> tuple[Codes, Codes]:
    """Return the codes of some rows, from which the components are computed, and those of other rows."""
    inner, cross = products[rows][:, rows].double(), products[others][:, rows].double()
    means, shifts = inner.mean(1), cross.mean(1)
    lengths = products.diagonal()[others].double() - 2 * shifts + means.mean()
    inner = inner - means - means[:, None] + means.mean()
    cross = cross - means - shifts[:, None] + means.mean()
    variances, vectors = eigen(inner / len(rows))
    kept = variances > LEAST_VARIANCE_OF_FEW * variances[-1].clamp_min(torch.finfo(torch.float32).tiny)
    variances, vectors = variances[kept][-size:], vectors[:, kept][:, -size:]
    roots, factors = (len(rows) * variances).sqrt(), variances.pow(-WHITENING / 2)
    projected = cross @ vectors / roots
    rest = (lengths - projected.square().sum(1)).clamp_min(0)
    outside = float(factors.square().median()) if len(factors) and size >= len(products) else 0.0
    near, far = (Codes.of((part * factors).to(products.dtype)) for part in (vectors * roots, projected))
    return near, Codes(far.values, far.norms + outside * rest.to(far.norms))
