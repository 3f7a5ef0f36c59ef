"""Heads of few images, solved from their rows, are those of the Gram matrix."""

from __future__ import annotations

import pytest
import torch

from rescnet.stages.discriminant import factorise, fit_head, multiclass_lda, one_vs_rest_lda, ridge_regression
from rescnet.stages.moments import Moments
from rescnet.stages.row_moments import RowMoments
from rescnet.stages.solving import NotPositiveDefiniteError, cholesky_solver

HEADS = {"lda": one_vs_rest_lda, "multiclass-lda": multiclass_lda, "ridge": ridge_regression}


def both_kinds(n=40, size=90, dtype=torch.float64, weighted=False):
    """Return the sums of both kinds over the same images, in three chunks; the last feature is constant."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % 4
    spread = torch.randn(size, size, generator=generator, dtype=torch.float64) / size**0.5
    features = torch.randn(n, size, generator=generator, dtype=torch.float64) @ spread + labels[:, None] / 4 + 5
    features[:, -1] = 3.0
    targets = torch.nn.functional.one_hot(labels, 4).to(dtype)
    weights = 0.5 + torch.rand(n, generator=generator, dtype=torch.float64)
    weights = (weights / weights.mean()).to(dtype) if weighted else None
    found = []
    for kind in (Moments, RowMoments):
        sums = kind.zeros(features[:5].mean(0).to(dtype), 4)
        for part in (slice(0, 7), slice(7, 8), slice(8, n)):
            sums.add(features[part].to(dtype), targets[part], None if weights is None else weights[part])
        found.append(sums)
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shrinkage", "gamma"), [("ridge", 1e-3), ("ridge", 2.0), ("convex", 0.3), ("convex", 1.0)])
@pytest.mark.parametrize("head", HEADS)
def test_heads_are_those_of_the_gram_matrix(head, shrinkage, gamma, weighted):
    by_gram, by_rows = both_kinds(weighted=weighted)
    for standardise in (True, False):
        expected, found = (
            HEADS[head](factorise(sums, gamma, shrinkage, standardise), sums) for sums in (by_gram, by_rows)
        )
        torch.testing.assert_close(found.weights, expected.weights, rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(found.bias, expected.bias, rtol=1e-7, atol=1e-9)
        assert torch.equal(found.present, expected.present)
        assert not bool(found.weights[-1].any())  # of the constant feature


def test_scatter_and_variances_are_the_same_without_a_gram_matrix():
    by_gram, by_rows = both_kinds(weighted=True)
    assert by_rows.gram.numel() == 0
    torch.testing.assert_close(by_rows.variances(), by_gram.variances())
    scatter = by_gram.scatter().tril()
    torch.testing.assert_close(by_rows.scatter().tril(), scatter, rtol=1e-7, atol=1e-9)


def test_single_precision_is_as_near_to_the_truth_as_the_gram_matrix_is():
    exact, _ = both_kinds(n=60, size=600)
    truth = factorise(exact, 0.1).solve(exact.centred_cross().T)
    misses = []
    for sums in both_kinds(n=60, size=600, dtype=torch.float32):
        found = factorise(sums, 0.1).solve(sums.centred_cross().T)
        misses.append(float((found - truth).norm() / truth.norm()))
    assert misses[1] < max(2 * misses[0], 1e-5)


def test_without_a_ridge_more_is_tried():
    """Fewer images than features have no scatter that could be solved with; the Gram matrix is no better off."""
    _, by_rows = both_kinds()
    with pytest.raises(NotPositiveDefiniteError, match="fewer images than features"):
        factorise(by_rows, 0.0)
    head, ridge = fit_head(by_rows, one_vs_rest_lda, 0.0)
    assert ridge > 0 and bool(head.weights.isfinite().all())


def test_features_that_went_wrong_are_refused():
    _, by_rows = both_kinds()
    by_rows.rows[0][0, 0] = torch.nan
    with pytest.raises(FloatingPointError, match="NaN or infinity"):
        by_rows.solver(torch.ones(90).double(), 1.0, 0.1, cholesky_solver)
