"""Rows of features with few numbers that are not zero, collected chunk by chunk into one sparse matrix.

Numbers go into large blocks of memory. What is kept between the large arrays a chunk needs for a while leaves the heap
full of holes: on MNIST the process grew to three times the size of the matrix. So the heap is trimmed with every block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..training.stopwatch import trim_heap

BLOCK = 2**24  # numbers


class SparseRows:
    """A sparse matrix that grows row by row.

    Parameters
    ----------
    columns : int
        D.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._counts: list[NDArray[np.int64]] = []  # numbers in each row
        self._values: list[NDArray[np.float32]] = []
        self._places: list[NDArray[np.int32]] = []
        self._used = BLOCK  # of the last block

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
        """Return a SciPy CSR matrix of float32 numbers; what was collected is given up block by block."""
        from scipy.sparse import csr_matrix

        ends = np.concatenate([[0], *self._counts]).cumsum()
        kind = np.int32 if ends[-1] < 2**31 else np.int64
        values = _drain(self._values, int(ends[-1]), np.float32)
        places = _drain(self._places, int(ends[-1]), kind)
        return csr_matrix((values, places, ends.astype(kind)), shape=(len(ends) - 1, self.columns))


def _drain(blocks: list[Any], total: int, kind: Any) -> NDArray[Any]:
    """Join blocks into one array, each freed when it is copied."""
    joined = np.empty(total, kind)
    for start in range(0, total, BLOCK):
        joined[start : start + BLOCK] = blocks.pop(0)[: total - start]
    return joined
