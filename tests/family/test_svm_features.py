"""Features that are multiplied: what comes out is the product, however the machine makes it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from rescnet.family.svm_features import BANDS, PanelFeatures, SparseFeatures, bands_of, sparse_features


@pytest.fixture
def matrix():
    """Rows of very different length, some of them empty."""
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.3, (23, 17)) * rng.random((23, 17))
    dense[[0, 5, 6, 22]] = 0
    dense[9] = 1
    return csr_matrix(dense.astype(np.float32))


@pytest.mark.parametrize("twice", [True, False])
@pytest.mark.parametrize("mkl", [True, False])
def test_products_are_those_of_the_dense_matrix(matrix, mkl, twice, monkeypatch):
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    monkeypatch.setattr("rescnet.family.svm_features.PANEL", 5)  # 17 columns are four of them
    features = sparse_features(matrix, twice)
    assert isinstance(features, PanelFeatures if twice and not mkl else SparseFeatures)
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


def test_what_bands_come_to_does_not_depend_on_threads(monkeypatch):
    rng = np.random.default_rng(0)
    features = SparseFeatures(csr_matrix(rng.random((40 * BANDS, 300), dtype=np.float32)), by_columns=False)
    right, products = torch.randn(40 * BANDS, 3), []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        products.append(features.transposed_times(right))
    assert torch.equal(products[0], products[1]) and torch.equal(products[0], products[2])


@pytest.mark.parametrize("twice", [True, False])
@pytest.mark.parametrize("mkl", [True, False])
def test_a_matrix_of_zeros_gives_zeros(mkl, twice, monkeypatch):
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    features = sparse_features(csr_matrix((3, 5), dtype=np.float32), twice)
    assert torch.equal(features.times(torch.ones(5, 2)), torch.zeros(3, 2))
    assert torch.equal(features.transposed_times(torch.ones(3, 2)), torch.zeros(5, 2))


def test_panels_give_the_same_with_any_number_of_threads(matrix, monkeypatch):
    monkeypatch.setattr("rescnet.family.svm_features.PANEL", 3)
    below, beside = torch.randn(17, 4), torch.randn(23, 4)
    found = []
    for threads in (1, 2, 9):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        features = PanelFeatures(matrix)
        found.append((features.times(below), features.transposed_times(beside)))
    assert all(torch.equal(found[0][place], other[place]) for other in found[1:] for place in (0, 1))
