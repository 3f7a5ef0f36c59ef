"""Sparse rows, collected in blocks, are the dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rescnet.family import sparse_rows
from rescnet.family.sparse_rows import SparseRows


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_the_matrix_is_that_of_the_dense_rows(block, monkeypatch, generator):
    monkeypatch.setattr(sparse_rows, "BLOCK", block)
    dense = torch.rand(23, 11, generator=generator) * (torch.rand(23, 11, generator=generator) > 0.7)
    dense[5] = 0  # a row without any
    rows = SparseRows(11)
    for part in torch.split(dense, 4):
        rows.append(part)
    matrix = rows.matrix()
    assert matrix.dtype == np.float32 and matrix.indices.dtype == np.int32
    np.testing.assert_array_equal(matrix.toarray(), dense.numpy())
    assert matrix.has_sorted_indices
