"""Feature matrices of the SVM: dense on a GPU, sparse on a CPU. The solver needs their products only."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from operator import matmul
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ..stages.linear_algebra import accurate_product
from ..training.stopwatch import trim_heap

MOST_NUMBERS = 2**31 - 1  # non-zero numbers that liblinear takes; numbers of one product on a GPU
ALIGNED_COLUMNS = 8  # tensor cores take rows of a multiple of 16 bytes
BANDS = 16  # parts of the rows: enough to keep all threads equally busy
PANEL = 4096  # columns per part: their right-hand side, ten numbers each, stays in a core's cache
BLOCK = 2**24  # numbers collected per array


class Features(Protocol):
    """A feature matrix X, shape (n, D); right-hand sides have its ``dtype``."""

    dtype: torch.dtype

    def times(self, right: Tensor) -> Tensor:
        """Return X·right, (D, K) → (n, K)."""
        ...

    def transposed_times(self, right: Tensor) -> Tensor:
        """Return Xᵀ·right, (n, K) → (D, K)."""
        ...


class DenseFeatures:
    """Features as a tensor; products of half precision are summed in float32."""

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
    """Features as parts of a sparse matrix, multiplied by SciPy in threads.

    The result does not depend on the number of threads.

    Parameters
    ----------
    matrix : SciPy CSR matrix of float32, shape (n, D)
    copy : bool
        Copy the matrix into panels of columns. Products are two to three times as fast if D is large, because the
        right-hand side of a panel stays in the cache. Otherwise the parts are bands of rows on the same memory.
    """

    def __init__(self, matrix: Any, copy: bool) -> None:
        from scipy.sparse import csc_matrix

        self.dtype = torch.float32
        self._by_columns = copy
        self._parts = panels_of(matrix) if copy else bands_of(matrix, BANDS)
        self._transposed = [_share(part, csc_matrix(part.shape[::-1], dtype=part.dtype)) for part in self._parts]
        self._ends = np.cumsum([part.shape[int(copy)] for part in self._parts])[:-1]

    def times(self, right: Tensor) -> Tensor:
        """Return X·right."""
        return self._product(self._parts, right, summed=self._by_columns)

    def transposed_times(self, right: Tensor) -> Tensor:
        """Return Xᵀ·right."""
        return self._product(self._transposed, right, summed=not self._by_columns)

    def _product(self, parts: list[Any], right: Tensor, summed: bool) -> Tensor:
        """Multiply each part: by its rows of ``right`` and sum, or by all of ``right`` and concatenate."""
        below = np.split(right.numpy(), self._ends) if summed else [right.numpy()] * len(parts)
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            products = pool.map(matmul, parts, below)
            return torch.from_numpy(sum(products) if summed else np.concatenate(list(products)))


def panels_of(matrix: Any) -> list[Any]:
    """Copy the columns of a SciPy CSR matrix into matrices of at most ``PANEL`` columns."""
    return [matrix[:, begin : begin + PANEL] for begin in range(0, matrix.shape[1], PANEL)]


def bands_of(matrix: Any, bands: int) -> list[Any]:
    """Return the rows of a SciPy CSR matrix as at most ``bands`` matrices on the same memory."""
    from scipy.sparse import csr_matrix

    found = []
    for rows in np.array_split(np.arange(matrix.shape[0]), min(bands, matrix.shape[0])):
        first, last = int(rows[0]), int(rows[-1]) + 1
        found.append(_share(matrix, csr_matrix((len(rows), matrix.shape[1]), dtype=matrix.dtype), first, last))
    return found


def _share(source: Any, empty: Any, first: int = 0, last: int | None = None) -> Any:
    """Give an empty matrix the numbers of rows ``first`` to ``last`` of a CSR matrix.

    They are assigned: SciPy's constructors, and its ``.T``, copy an array that is a small part of another.
    """
    starts = source.indptr[first : None if last is None else last + 1]
    inside = slice(starts[0], starts[-1])
    empty.data, empty.indices, empty.indptr = source.data[inside], source.indices[inside], starts - starts[0]
    return empty


class SparseRows:
    """A sparse matrix that grows by dense rows.

    Numbers are collected in large arrays, and the heap is trimmed before each new one. Small arrays would fragment the
    heap between the temporary arrays of a chunk: on MNIST the process grew to three times the size of the matrix.

    Parameters
    ----------
    columns : int
        D.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._counts: list[NDArray[np.int64]] = []  # non-zero numbers of each row
        self._values: list[NDArray[np.float32]] = []
        self._places: list[NDArray[np.int32]] = []
        self._used = BLOCK  # numbers in the last array

    def append(self, rows: Tensor) -> None:
        """Add dense rows, shape (n, D)."""
        place = rows.nonzero(as_tuple=True)
        self._counts.append(torch.bincount(place[0], minlength=len(rows)).cpu().numpy())
        values, columns = rows[place].float().cpu().numpy(), place[1].int().cpu().numpy()
        done = 0
        while done < len(values):
            if self._used == BLOCK:
                trim_heap()
                self._values.append(np.empty(BLOCK, np.float32))
                self._places.append(np.empty(BLOCK, np.int32))
                self._used = 0
            step = min(len(values) - done, BLOCK - self._used)
            where = slice(self._used, self._used + step)
            self._values[-1][where] = values[done : done + step]
            self._places[-1][where] = columns[done : done + step]
            done, self._used = done + step, self._used + step

    def matrix(self) -> Any:
        """Return a SciPy CSR matrix of float32 numbers; the collected arrays are freed one by one."""
        from scipy.sparse import csr_matrix

        ends = np.concatenate([[0], *self._counts]).cumsum()
        kind = np.int32 if ends[-1] < 2**31 else np.int64
        values = _drain(self._values, int(ends[-1]), np.float32)
        places = _drain(self._places, int(ends[-1]), kind)
        return csr_matrix((values, places, ends.astype(kind)), shape=(len(ends) - 1, self.columns))


def _drain(blocks: list[Any], total: int, kind: Any) -> NDArray[Any]:
    """Join arrays into one; each is freed after its copy."""
    joined = np.empty(total, kind)
    for start in range(0, total, BLOCK):
        joined[start : start + BLOCK] = blocks.pop(0)[: total - start]
    return joined
