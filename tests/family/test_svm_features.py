"""Features that are multiplied: what comes out is the product, however the machine makes it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from rescnet.family.svm_features import SparseFeatures


@pytest.fixture
def matrix():
    """Rows of very different length, some of them empty."""
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.3, (23, 17)) * rng.random((23, 17))
    dense[[0, 5, 6, 22]] = 0
    dense[9] = 1
    return csr_matrix(dense.astype(np.float32))


@pytest.mark.parametrize("by_columns", [True, False])
@pytest.mark.parametrize("threads", [1, 3, 40])
@pytest.mark.parametrize("mkl", [True, False])
def test_products_are_those_of_the_dense_matrix(matrix, mkl, threads, by_columns, monkeypatch):
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    features = SparseFeatures(matrix, by_columns)
    below, beside = torch.randn(17, 4), torch.randn(23, 4)
    dense = torch.from_numpy(matrix.toarray())
    torch.testing.assert_close(features.times(below), dense @ below)
    torch.testing.assert_close(features.transposed_times(beside), dense.T @ beside)


def test_a_large_matrix_is_held_once(matrix, monkeypatch):
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    parts = []
    multiplied = csr_matrix.__matmul__

    def seen(self, other):
        parts.append(self)
        return multiplied(self, other)

    features = SparseFeatures(matrix, by_columns=False)
    monkeypatch.setattr(csr_matrix, "__matmul__", seen)
    features.times(torch.randn(17, 4))
    assert len(parts) == 3
    assert all(np.shares_memory(part.data, matrix.data) for part in parts)
    assert all(np.shares_memory(part.indices, matrix.indices) for part in parts)
    assert sum(part.nnz for part in parts) == matrix.nnz
