"""Features as the SVM's solver needs them: something that is multiplied, from the left and from the right."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..stages.mixed_precision import accurate_product

MOST_NUMBERS = 2**31 - 1  # of a sparse matrix liblinear and PyTorch's products take, and of one product on a GPU
ALIGNED_COLUMNS = 8  # tensor cores take rows of 16 bytes or multiples of them
BANDS = 16  # of rows that are shared out to threads: enough for any number of them to have about as much to do
PANEL = 4096  # columns: what they are multiplied with, ten numbers each, stays in a core's cache


class Features(Protocol):
    """A matrix of features (n, D) as the solver needs it; what it is multiplied with is of its ``dtype``."""

    dtype: torch.dtype

    def times(self, right: Tensor) -> Tensor:
        """Return X·right, (D, K) → (n, K)."""
        ...

    def transposed_times(self, right: Tensor) -> Tensor:
        """Return Xᵀ·right, (n, K) → (D, K)."""
        ...


class DenseFeatures:
    """Features as a tensor; one in half precision is multiplied with float32 sums."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix
        self.dtype = torch.float32 if matrix.dtype == torch.float16 else matrix.dtype

    def times(self, right: Tensor) -> Tensor:
        """Return X·right."""
        return self._product(self.matrix, right)

    def transposed_times(self, right: Tensor) -> Tensor:
        """Return Xᵀ·right."""
        return self._product(self.matrix.T, right)

    @staticmethod
    def _product(left: Tensor, right: Tensor) -> Tensor:
        if left.dtype != torch.float16:
            return left @ right
        # Half precision knows no numbers below 6e-8, and a gradient has many: columns are scaled to a maximum of one.
        scale = right.abs().amax(0).clamp_min(torch.finfo(right.dtype).tiny)
        aligned = F.pad(right / scale, (0, -right.shape[1] % ALIGNED_COLUMNS))
        return _in_parts(left, aligned)[:, : right.shape[1]] * scale


def _in_parts(left: Tensor, right: Tensor) -> Tensor:
    """Return left·right, half and single precision, from parts of ``left`` whose numbers 32 bits can count."""
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
    """Features as a SciPy CSR matrix of float32 numbers.

    Parameters
    ----------
    matrix : SciPy CSR matrix, shape (n, D)
    by_columns : bool
        Hold it a second time, by columns: the transposed product is several times as fast then. Else it is summed
        over bands of rows, shared out to threads; what comes out does not depend on their number.
    """

    def __init__(self, matrix: Any, by_columns: bool) -> None:
        self.dtype = torch.float32
        self._rows = _products_with(matrix)
        self._columns = _products_with(matrix.T.tocsr()) if by_columns else None
        self._bands = [] if by_columns else bands_of(matrix, BANDS)

    def times(self, right: Tensor) -> Tensor:
        """Return X·right."""
        return self._rows(right)

    def transposed_times(self, right: Tensor) -> Tensor:
        """Return Xᵀ·right."""
        if self._columns is not None:
            return self._columns(right)
        parts = np.split(right.numpy(), np.cumsum([band.shape[0] for band in self._bands])[:-1])
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            return torch.from_numpy(sum(pool.map(lambda band, part: band.T @ part, self._bands, parts)))


class PanelFeatures:
    """Features as panels of their columns, SciPy CSR matrices of float32 numbers, shared out to threads.

    Faster than :class:`SparseFeatures` where there is no MKL: products wait for memory there, and half as long for what
    stays in a cache. What comes out does not depend on the number of threads.

    Parameters
    ----------
    matrix : SciPy CSR matrix, shape (n, D)
        Copied.
    """

    def __init__(self, matrix: Any) -> None:
        self.dtype = torch.float32
        self._panels = [matrix[:, begin : begin + PANEL] for begin in range(0, matrix.shape[1], PANEL)]

    def times(self, right: Tensor) -> Tensor:
        """Return X·right."""
        parts = (part.numpy() for part in torch.split(right, PANEL))
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            return torch.from_numpy(sum(pool.map(lambda panel, part: panel @ part, self._panels, parts)))

    def transposed_times(self, right: Tensor) -> Tensor:
        """Return Xᵀ·right."""
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            products = pool.map(lambda panel: panel.T @ right.numpy(), self._panels)
            return torch.from_numpy(np.concatenate(list(products)))


def bands_of(matrix: Any, bands: int) -> list[Any]:
    """Return the rows of a SciPy CSR matrix as so many matrices, on the same memory."""
    from scipy.sparse import csr_matrix

    found = []
    for rows in np.array_split(np.arange(matrix.shape[0]), min(bands, matrix.shape[0])):
        starts = matrix.indptr[rows[0] : rows[-1] + 2]
        band, inside = csr_matrix((len(rows), matrix.shape[1]), dtype=matrix.dtype), slice(starts[0], starts[-1])
        # Put in place: given to the constructor, parts of an array are copied.
        band.data, band.indices, band.indptr = matrix.data[inside], matrix.indices[inside], starts - starts[0]
        found.append(band)
    return found


def sparse_features(matrix: Any, twice: bool) -> Features:
    """Return a SciPy CSR matrix as features, as this machine multiplies them fastest.

    Parameters
    ----------
    matrix : SciPy CSR matrix, shape (n, D)
    twice : bool
        Whether there is memory to hold it a second time.
    """
    if twice and not _has_mkl():
        return PanelFeatures(matrix)
    return SparseFeatures(matrix, by_columns=twice)


def _products_with(matrix: Any) -> Callable[[Tensor], Tensor]:
    """Return the function right ↦ matrix·right of a SciPy CSR matrix, on the same memory."""
    starts, columns, values = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    if not _has_mkl():
        # PyTorch's own sparse product, on ARM for one, takes several times as long as the same sums of weighted rows.
        return lambda right: F.embedding_bag(
            columns, right, starts, mode="sum", per_sample_weights=values, include_last_offset=True
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch calls its CSR tensors a beta
        tensor = torch.sparse_csr_tensor(starts, columns, values, matrix.shape)
    return lambda right: tensor @ right


def _has_mkl() -> bool:
    return bool(torch.backends.mkl.is_available())  # type: ignore[no-untyped-call]
