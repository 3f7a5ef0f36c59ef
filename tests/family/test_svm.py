"""Two solvers of the SVM that minimise the same function, and products of sparse features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.svm import LinearSVC

from rescnet.family.fitting import sparse_rows
from rescnet.family.svm import DenseFeatures, SparseFeatures, fit_svm, newton_svm


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
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_newtons_method_agrees_with_liblinear(problem, cost, kind):
    features, labels = problem
    liblinear = LinearSVC(C=cost, tol=1e-8, max_iter=100_000, random_state=0).fit(features.astype(float), labels)
    given = DenseFeatures(torch.from_numpy(features)) if kind == "dense" else SparseFeatures(csr_matrix(features))
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


def test_products_are_those_of_the_dense_matrix(matrix, monkeypatch):
    monkeypatch.setattr("rescnet.family.svm.PANEL", 5)  # 17 columns are four panels
    features = SparseFeatures(matrix)
    below, beside = torch.randn(17, 4), torch.randn(23, 4)
    dense = torch.from_numpy(matrix.toarray())
    torch.testing.assert_close(features.times(below), dense @ below)
    torch.testing.assert_close(features.transposed_times(beside), dense.T @ beside)


def test_products_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr("rescnet.family.svm.PANEL", 70)
    rng = np.random.default_rng(0)
    features = SparseFeatures(csr_matrix(rng.random((640, 300), dtype=np.float32)))
    below, beside, found = torch.randn(300, 3), torch.randn(640, 3), []
    for threads in (1, 2, 9):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found.append((features.times(below), features.transposed_times(beside)))
    assert all(torch.equal(found[0][place], other[place]) for other in found[1:] for place in (0, 1))


def test_a_matrix_of_zeros_gives_zeros():
    features = SparseFeatures(csr_matrix((3, 5), dtype=np.float32))
    assert torch.equal(features.times(torch.ones(5, 2)), torch.zeros(3, 2))
    assert torch.equal(features.transposed_times(torch.ones(3, 2)), torch.zeros(5, 2))


def test_sparse_rows_are_the_dense_rows(generator):
    dense = torch.rand(23, 11, generator=generator) * (torch.rand(23, 11, generator=generator) > 0.7)
    dense[5] = 0  # an empty row
    matrix = sparse_rows(dense)
    assert matrix.dtype == np.float32 and matrix.indices.dtype == np.int32
    np.testing.assert_array_equal(matrix.toarray(), dense.numpy())
    assert matrix.has_sorted_indices
