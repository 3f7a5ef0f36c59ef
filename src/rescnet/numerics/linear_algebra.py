"""Linear algebra: half-precision products with float32 sums, Cholesky factors, and eigenvectors of filter banks.

Half-precision products run on tensor cores if available. These need sizes that are multiples of 8 numbers. 64 is safe:
a Gram matrix of another size is four times slower. Weights and targets that must keep their digits are split into a
high and a low half-precision part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock

import torch
from torch import Tensor
from torch.nn import functional

from .threads import one_thread_if_small

ALIGNMENT = 64
SINGULAR = 1e-6  # of the largest eigenvalue: smaller eigenvalues are rounding errors of float32 sums
MOST_RIDGES, LEAST_LARGER_RIDGE = 6, 1e-3
_TF32 = RLock()  # one thread at a time changes the setting, so that it is restored
TF32_BITS = ~0x1FFF  # of a float32 number: sign, exponent and ten bits of the fraction
CACHED_ROWS = 32  # of features that a CPU takes in several steps: of more, each step waits for memory
LEAST_COLUMNS = 1024  # per thread
PANEL, CPU_PANEL = 4096, 512  # columns per panel of a Gram matrix; panels skip most of its upper triangle


def padded_size(size: int) -> int:
    """Return the next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_rows(rows: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return memory for rows (n, D), in half precision with zeros after each row up to a multiple of the alignment."""
    if dtype != torch.float16:
        return torch.empty(rows, width, dtype=dtype, device=device)
    rows_and_zeros = torch.empty(rows, padded_size(width), dtype=dtype, device=device)
    rows_and_zeros[:, width:] = 0
    return rows_and_zeros[:, :width]


def with_zeros(x: Tensor, width: int) -> Tensor:
    """Return rows (n, D) with zeros up to a width.

    Half-precision rows of this stride must come from :func:`aligned_rows`: the memory after each row is read. Others
    are copied.
    """
    if x.dtype == torch.float16 and x.stride() == (width, 1):
        return x.as_strided((len(x), width), (width, 1))
    return functional.pad(x, (0, width - x.shape[1]))


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` of half-precision matrices, summed and returned in float32."""
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def add_product_(total: Tensor, a: Tensor, b: Tensor, beta: float = 1.0) -> None:
    """Add ``a @ b`` of matrices of one type to ``beta`` times the ``total``: float32 if they are in half precision."""
    if a.is_cuda and a.dtype == torch.float16:
        torch.addmm(total, a, b, beta=beta, out_dtype=torch.float32, out=total)
    else:
        total.addmm_(a.to(total.dtype), b.to(total.dtype), beta=beta)


def add_gram_(gram: Tensor, x: Tensor) -> None:
    """Add ``xᵀx`` to the lower triangle of ``gram`` (D, D); ``x`` is (n, D), half precision.

    Entries to the right of a panel's diagonal block are neither computed nor changed. This takes little more than n·D²
    operations instead of 2·n·D².
    """
    for rows, panel in _panels(x.shape[1], PANEL):
        add_product_(gram[rows, panel], x[:, rows].T, x[:, panel])


def add_single_gram_(gram: Tensor, x: Tensor) -> None:
    """Add ``xᵀx`` to the lower triangle of ``gram`` (D, D) without TF32; ``x`` is (n, D), of the same type."""
    with tf32_products(False):
        for rows, panel in _panels(x.shape[1], PANEL if x.is_cuda else CPU_PANEL):
            gram[rows, panel].addmm_(x[:, rows].T, x[:, panel])


def lower_copy(matrix: Tensor) -> Tensor:
    """Return a matrix (D, D) with the lower triangle of another one. The rest, but for its panels, is not written."""
    lower = torch.empty_like(matrix)
    for rows, panel in _panels(len(matrix), PANEL):
        lower[rows, panel] = matrix[rows, panel]
    return lower


def _panels(size: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns of the panels of a lower triangle."""
    for start in range(0, size, width):
        yield slice(start, size), slice(start, min(start + width, size))


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return float32 ``x`` as high and low parts in half precision: ``high + low`` has 21 of its 24 bits."""
    high = x.half()
    return high, (x - high).half()


@contextmanager
def tf32_products(wanted: bool = True) -> Iterator[None]:
    """Multiply float32 matrices on a GPU in TF32, whose numbers have three digits, or in float32.

    The setting is that of the process: products of other threads are meanwhile computed like this, too.
    """
    if not torch.cuda.is_available():
        yield
        return
    setting = torch.backends.cuda.matmul
    with _TF32:
        before, setting.allow_tf32 = setting.allow_tf32, wanted
        try:
            yield
        finally:
            setting.allow_tf32 = before


_Parts = tuple[Tensor, Tensor | None]  # a matrix: what TF32 holds of it exactly, and the rest; or the matrix and None


def subtract_product_(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Subtract ``a @ b`` from ``total``."""
    _add_product_of_parts_(total, _parts(a), _parts(b), alpha=-1)


def lower_product(matrix: Tensor, x: Tensor) -> Tensor:
    """Return A x (D, K) for a symmetric A (D, D) of which the lower triangle is read, panel by panel."""
    total = torch.zeros_like(x)
    for start in range(0, len(matrix), PANEL):
        here, below = slice(start, min(start + PANEL, len(matrix))), slice(start + PANEL, len(matrix))
        corner = matrix[here, here].tril()
        corner += corner.tril(-1).T
        _add_product_of_parts_(total[here], _parts(corner), _parts(x[here]))
        high, low = _parts(matrix[below, here])
        _add_product_of_parts_(total[below], (high, low), _parts(x[here]))
        _add_product_of_parts_(total[here], (high.T, None if low is None else low.T), _parts(x[below]))
    return total


def _parts(x: Tensor) -> _Parts:
    """Split float32 numbers on a GPU."""
    if not x.is_cuda or x.dtype != torch.float32:
        return x, None
    high = (x.contiguous().view(torch.int32) & TF32_BITS).view(torch.float32)
    return high, x - high


def _add_product_of_parts_(total: Tensor, a: _Parts, b: _Parts, alpha: float = 1.0) -> None:
    """Add ``alpha·a @ b`` to ``total``, without the product of the rests.

    Three products on tensor cores are almost as exact as one in float32, and several times faster.
    """
    (a_high, a_low), (b_high, b_low) = a, b
    if a_low is None or b_low is None:
        total.addmm_(a_high, b_high, alpha=alpha)
        return
    with tf32_products():
        for left, right in ((a_low, b_high), (a_high, b_low), (a_high, b_high)):
            total.addmm_(left, right, alpha=alpha)


def accurate_product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` for half-precision ``a`` (n, D) and float32 ``b`` (D, K), K small, in float32."""
    high, low = split(b)
    both = product(a, torch.cat([high, low], dim=1))
    return both[:, : b.shape[1]] + both[:, b.shape[1] :]


def scores_in_half(features: Tensor, weights: Tensor) -> Tensor:
    """Return ``features @ weights`` for half-precision features (n, D or more) and float32 weights (D, K), in float32.

    Columns after the first D are zeros. Each column of the weights is multiplied by a power of two, so that neither
    large nor small ones leave the range of half precision.
    """
    width = padded_size(max(features.shape[1], len(weights)))
    features = with_zeros(features, width)
    unit = torch.exp2(14 - weights.abs().amax(0).clamp_min(1e-30).log2().ceil())
    scaled = functional.pad(weights * unit, (0, 0, 0, width - len(weights)))
    return accurate_product(features, scaled) / unit


Solver = Callable[[Tensor], Tensor]
"""Function b → x that solves A x = b for one matrix A: (D, K) → (D, K)."""


class NotPositiveDefiniteError(ArithmeticError):
    """Regularised scatter that is not positive definite, or too close to singular for an accurate solution."""


def cholesky_factor(matrix: Tensor) -> Tensor:
    """Return the lower Cholesky factor of a symmetric matrix; only its lower triangle is read."""
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)
    if int(info) != 0 or not bool(factor.diagonal().isfinite().all()):
        raise NotPositiveDefiniteError("the regularised scatter must be positive definite.")
    return factor


def growing_ridges(ridge: float) -> Iterator[float]:
    """Yield a ridge, then larger ones to try where rounding makes a kernel indefinite."""
    for _ in range(MOST_RIDGES):
        yield ridge
        ridge = max(10 * ridge, LEAST_LARGER_RIDGE)


def cholesky_(matrix: Tensor, block: int = PANEL) -> None:
    """Replace the lower triangle of a symmetric matrix (n, n) by its Cholesky factor, without a second matrix."""
    size = len(matrix)
    for start in range(0, size, block):
        end = min(start + block, size)
        factor = cholesky_factor(matrix[start:end, start:end])
        matrix[start:end, start:end] = factor
        below = matrix[end:, start:end]
        below.copy_(torch.linalg.solve_triangular(factor, below.mT, upper=False).mT)
        for rows, panel in _panels(size - end, block):
            subtract_product_(matrix[end:, end:][rows, panel], below[rows], below[panel].mT)


def factor_solve(factor: Tensor, right: Tensor) -> Tensor:
    """Return x (n, K), where L Lᵀ x = ``right``, for a lower factor L (n, n); its upper triangle is not read."""
    half = torch.linalg.solve_triangular(factor, right, upper=False)
    solution: Tensor = torch.linalg.solve_triangular(factor.mT, half, upper=True)
    return solution


def inverse_blocks(factor: Tensor, side: int, panel: int = PANEL // 2) -> Tensor:
    """Return the diagonal blocks (n / side, side, side) of (L Lᵀ)⁻¹ for a lower factor L (n, n).

    Its upper triangle is not read. The columns of L⁻¹ are computed in panels, and only their products are kept.
    """
    size = len(factor)
    block = max(side, panel // side * side)
    starts = range(0, size, block)
    inverses = []
    for start in starts:
        diagonal = factor[start : start + block, start : start + block]
        inverses.append(torch.linalg.solve_triangular(diagonal, torch.eye(len(diagonal)).to(factor), upper=False))
    blocks = factor.new_empty(size // side, side, side)
    for number, start in enumerate(starts):
        columns = factor.new_empty(size - start, len(inverses[number]))
        columns[: len(inverses[number])] = inverses[number]
        for inverse, row in zip(inverses[number + 1 :], starts[number + 1 :], strict=True):
            above, here = slice(0, row - start), slice(row - start, row - start + len(inverse))
            right = torch.zeros_like(columns[here])
            subtract_product_(right, factor[row : row + len(inverse), start:row], columns[above])
            columns[here] = inverse @ right
        several = columns.view(len(columns), -1, side).permute(1, 2, 0)
        blocks[start // side : (start + block) // side] = several @ several.mT
    return blocks


def cholesky_solver(matrix: Tensor) -> Solver:
    """Factorise a symmetric matrix and return its solver; only the lower triangle is read."""
    factor = cholesky_factor(matrix)
    return lambda right: torch.cholesky_solve(right, factor)


def eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues (..., M), ascending, and eigenvectors of symmetric (..., M, M), as columns."""
    with one_thread_if_small(matrix.shape[-1]):
        values, vectors = torch.linalg.eigh(matrix)
    return values, vectors


def leading_eigenvectors(matrix: Tensor, count: int) -> Tensor:
    """Return ``count`` eigenvectors of symmetric (..., M, M), largest eigenvalue first, shape (..., M, count)."""
    _, vectors = eigen(matrix)
    return vectors.flip(-1)[..., :count]


def inverse_root(matrix: Tensor, ridge: float = 0.0) -> Tensor:
    """Return A^(-1/2) of a symmetric matrix on its non-singular subspace, shape (M, rank): columns q/√λ.

    With a ridge r the columns are q/√(λ + r·λ̄), where λ̄ is the mean eigenvalue; the subspace stays the same.
    """
    values, vectors = eigen(matrix)
    regular = values > SINGULAR * values.max().clamp_min(torch.finfo(values.dtype).tiny)
    root: Tensor = (vectors[:, regular] / (values[regular] + ridge * values.mean()).sqrt()).flip(1)
    return root


def fix_signs(filters: Tensor) -> Tensor:
    """Make the largest component of each row positive: the sign of an eigenvector is arbitrary, ReLU depends on it."""
    largest = filters.abs().argmax(1, keepdim=True)
    return filters * filters.gather(1, largest).sign()
