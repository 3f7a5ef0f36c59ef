"""Sparse features: products against the dense matrix, and rows collected in blocks."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from rescnet.family import svm_features
from rescnet.family.svm_features import BANDS, SparseFeatures, SparseRows, bands_of

COPY = pytest.mark.parametrize("copy", [True, False], ids=["panels", "bands"])


@pytest.fixture
def matrix():
    """Rows of very different length, some of them empty."""
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.3, (23, 17)) * rng.random((23, 17))
    dense[[0, 5, 6, 22]] = 0
    dense[9] = 1
    return csr_matrix(dense.astype(np.float32))


@COPY
def test_products_are_those_of_the_dense_matrix(matrix, copy, monkeypatch):
    monkeypatch.setattr(svm_features, "PANEL", 5)  # 17 columns are four panels
    features = SparseFeatures(matrix, copy)
    below, beside = torch.randn(17, 4), torch.randn(23, 4)
    dense = torch.from_numpy(matrix.toarray())
    torch.testing.assert_close(features.times(below), dense @ below)
    torch.testing.assert_close(features.transposed_times(beside), dense.T @ beside)


@pytest.mark.parametrize("bands", [1, 4, 16, 100])
def test_bands_are_all_rows_on_the_same_memory(matrix, bands):
    found = bands_of(matrix, bands)
    assert len(found) == min(bands, 23)
    np.testing.assert_array_equal(np.concatenate([band.toarray() for band in found]), matrix.toarray())
    assert all(np.shares_memory(band.data, matrix.data) for band in found if band.nnz)


def test_features_without_a_copy_share_the_memory_of_the_matrix(matrix):
    features = SparseFeatures(matrix, copy=False)
    for part in (part for part in features._parts + features._transposed if part.nnz):
        assert np.shares_memory(part.data, matrix.data) and np.shares_memory(part.indices, matrix.indices)


def test_products_without_a_copy_take_no_memory_of_that_size():
    """SciPy's own transpose copies a band: with a thread per band the whole matrix was there twice."""
    matrix = csr_matrix(np.random.default_rng(0).random((50 * BANDS, 1000), dtype=np.float32))
    features, right = SparseFeatures(matrix, copy=False), torch.ones(50 * BANDS, 1)
    tracemalloc.start()
    try:
        features.transposed_times(right)
        features.times(torch.ones(1000, 1))
        assert tracemalloc.get_traced_memory()[1] < matrix.data.nbytes / 8
    finally:
        tracemalloc.stop()


@COPY
def test_products_do_not_depend_on_the_number_of_threads(copy, monkeypatch):
    monkeypatch.setattr(svm_features, "PANEL", 70)
    rng = np.random.default_rng(0)
    features = SparseFeatures(csr_matrix(rng.random((40 * BANDS, 300), dtype=np.float32)), copy)
    below, beside, found = torch.randn(300, 3), torch.randn(40 * BANDS, 3), []
    for threads in (1, 2, 9):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found.append((features.times(below), features.transposed_times(beside)))
    assert all(torch.equal(found[0][place], other[place]) for other in found[1:] for place in (0, 1))


@COPY
def test_a_matrix_of_zeros_gives_zeros(copy):
    features = SparseFeatures(csr_matrix((3, 5), dtype=np.float32), copy)
    assert torch.equal(features.times(torch.ones(5, 2)), torch.zeros(3, 2))
    assert torch.equal(features.transposed_times(torch.ones(3, 2)), torch.zeros(5, 2))


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_collected_rows_are_the_dense_rows(block, monkeypatch, generator):
    monkeypatch.setattr(svm_features, "BLOCK", block)
    dense = torch.rand(23, 11, generator=generator) * (torch.rand(23, 11, generator=generator) > 0.7)
    dense[5] = 0  # an empty row
    rows = SparseRows(11)
    for part in torch.split(dense, 4):
        rows.append(part)
    matrix = rows.matrix()
    assert matrix.dtype == np.float32 and matrix.indices.dtype == np.int32
    np.testing.assert_array_equal(matrix.toarray(), dense.numpy())
    assert matrix.has_sorted_indices
