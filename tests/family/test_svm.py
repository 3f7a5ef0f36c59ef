"""Two solvers of the SVM that minimise the same function, products of sparse features, and rows collected in blocks."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.svm import LinearSVC

from rescnet.family import fitting, svm
from rescnet.family.fitting import SparseRows
from rescnet.family.svm import BANDS, DenseFeatures, SparseFeatures, bands_of, fit_svm, newton_svm

COPY = pytest.mark.parametrize("copy", [True, False], ids=["panels", "bands"])


@pytest.fixture(scope="module")
def problem():
    """Sparse features like histograms, four classes that overlap."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 4
    features = rng.poisson(0.2 + 0.25 * (np.arange(40) % 4 == labels[:, None])).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features, labels


def objective(features, labels, weights, bias, cost):
    sides = 2.0 * (labels[:, None] == np.arange(4)) - 1
    slack = np.maximum(0, 1 - sides * (features @ weights + bias))
    return 0.5 * (weights**2).sum(0) + 0.5 * bias**2 + cost * (slack**2).sum(0)


@pytest.mark.parametrize("cost", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("kind", ["dense", "bands", "panels"])
def test_newtons_method_agrees_with_liblinear(problem, cost, kind):
    features, labels = problem
    liblinear = LinearSVC(C=cost, tol=1e-8, max_iter=100_000, random_state=0).fit(features.astype(float), labels)
    sparse = csr_matrix(features)
    given = {
        "dense": lambda: DenseFeatures(torch.from_numpy(features)),
        "bands": lambda: SparseFeatures(sparse, copy=False),
        "panels": lambda: SparseFeatures(sparse, copy=True),
    }[kind]()
    head = newton_svm(given, 40, torch.from_numpy(labels), 4, cost, tolerance=1e-5)
    np.testing.assert_allclose(head.weights.numpy(), liblinear.coef_.T, atol=5e-3 * np.abs(liblinear.coef_).max())
    ours = objective(features, labels, head.weights.numpy(), head.bias.numpy(), cost)
    theirs = objective(features, labels, liblinear.coef_.T, liblinear.intercept_, cost)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_the_default_tolerance_is_close_enough(problem):
    features, labels = problem
    loose, tight = (
        newton_svm(DenseFeatures(torch.from_numpy(features)), 40, torch.from_numpy(labels), 4, 1.0, tolerance)
        for tolerance in (0.01, 1e-6)
    )
    values = [objective(features, labels, h.weights.numpy(), h.bias.numpy(), 1.0) for h in (loose, tight)]
    assert (values[0] <= 1.001 * values[1]).all()


def test_half_precision_features_lose_little(problem):
    features, labels = problem
    full, half = (
        newton_svm(DenseFeatures(torch.from_numpy(features).to(kind)), 40, torch.from_numpy(labels), 4, 1.0)
        for kind in (torch.float64, torch.float16)
    )
    assert half.weights.dtype == torch.float32
    np.testing.assert_allclose(half.weights.numpy(), full.weights.numpy(), atol=0.02)


def test_half_precision_keeps_tiny_numbers(problem):
    matrix = torch.from_numpy(problem[0])
    right = torch.rand(40, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 1e-9])
    found = DenseFeatures(matrix.half()).times(right)
    torch.testing.assert_close(found, matrix.half().float() @ right, rtol=1e-4, atol=0)


def test_memory_decides_the_solver(problem, monkeypatch):
    features, labels = problem
    sparse, targets = csr_matrix(features), torch.from_numpy(labels)
    plenty = fit_svm(sparse, targets, 4, 1.0, 0, memory=10**9)
    monkeypatch.setattr("sklearn.svm.LinearSVC.fit", None)  # must not be called again
    little = fit_svm(sparse, targets, 4, 1.0, 0, memory=10**4)
    coarse = fit_svm(sparse, targets, 4, 1.0, 0, memory=10**4, tolerance=0.5)
    assert not torch.equal(coarse.weights, little.weights)
    np.testing.assert_allclose(plenty.weights.numpy(), little.weights.numpy(), atol=0.05)


def test_two_classes_have_one_score_each(problem):
    features, labels = problem
    head = fit_svm(csr_matrix(features), torch.from_numpy(labels % 2), 2, 1.0, 0, memory=10**9)
    torch.testing.assert_close(head.weights[:, 0], -head.weights[:, 1])
    assert head.bias.shape == (2,)


def test_too_many_numbers_are_refused(problem, monkeypatch):
    monkeypatch.setattr("rescnet.family.svm.MOST_NUMBERS", 100)
    with pytest.raises(ValueError, match=r"must have at most 100 non-zero numbers, got [\d,]+. Use a GPU, fewer"):
        fit_svm(csr_matrix(problem[0]), torch.from_numpy(problem[1]), 4, 1.0, 0, memory=10**9)


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
    monkeypatch.setattr(svm, "PANEL", 5)  # 17 columns are four panels
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
    monkeypatch.setattr(svm, "PANEL", 70)
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
    monkeypatch.setattr(fitting, "BLOCK", block)
    dense = torch.rand(23, 11, generator=generator) * (torch.rand(23, 11, generator=generator) > 0.7)
    dense[5] = 0  # an empty row
    rows = SparseRows(11)
    for part in torch.split(dense, 4):
        rows.append(part)
    matrix = rows.matrix()
    assert matrix.dtype == np.float32 and matrix.indices.dtype == np.int32
    np.testing.assert_array_equal(matrix.toarray(), dense.numpy())
    assert matrix.has_sorted_indices
