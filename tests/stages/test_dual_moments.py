"""Heads solved in the dual form equal those of the Gram matrix."""

from __future__ import annotations

import pytest
import torch

from rescnet.stages.cholesky import NotPositiveDefiniteError, cholesky_solver
from rescnet.stages.discriminant import factorise, fit_head, multiclass_lda, one_vs_rest_lda, ridge_regression
from rescnet.stages.dual_moments import RowMoments
from rescnet.stages.moments import Moments

HEADS = {"lda": one_vs_rest_lda, "multiclass-lda": multiclass_lda, "ridge": ridge_regression}


def both_kinds(n=40, size=90, dtype=torch.float64):
    """Return the sums of both kinds over the same images, in three chunks; the last feature is constant."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % 4
    spread = torch.randn(size, size, generator=generator, dtype=torch.float64) / size**0.5
    features = torch.randn(n, size, generator=generator, dtype=torch.float64) @ spread + labels[:, None] / 4 + 5
    features[:, -1] = 3.0
    targets = torch.nn.functional.one_hot(labels, 4).to(dtype)
    found = []
    for kind in (Moments, RowMoments):
        sums = kind.zeros(features[:5].mean(0).to(dtype), 4)
        for part in (slice(0, 7), slice(7, 8), slice(8, n)):
            sums.add(features[part].to(dtype), targets[part])
        found.append(sums)
    return found


@pytest.mark.parametrize("gamma", [1e-3, 2.0])
@pytest.mark.parametrize("head", HEADS)
def test_heads_are_those_of_the_gram_matrix(head, gamma):
    by_gram, by_rows = both_kinds()
    expected, found = (HEADS[head](factorise(sums, gamma), sums) for sums in (by_gram, by_rows))
    torch.testing.assert_close(found.weights, expected.weights, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(found.bias, expected.bias, rtol=1e-7, atol=1e-9)
    assert torch.equal(found.present, expected.present)
    assert not bool(found.weights[-1].any())  # of the constant feature


def test_scatter_and_variances_are_the_same_without_a_gram_matrix():
    by_gram, by_rows = both_kinds()
    assert by_rows.gram.numel() == 0
    torch.testing.assert_close(by_rows.variances(), by_gram.variances())
    rows = torch.cat(by_rows.rows)
    scatter = rows.T @ rows / by_rows.count - by_rows.mean_offset[:, None] * by_rows.mean_offset
    torch.testing.assert_close(scatter.tril(), by_gram.scatter().tril(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.0, 1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("head", HEADS)
def test_single_precision_is_near_the_truth_however_small_the_ridge(head, gamma):
    """Without a ridge it is raised: the scatter of fewer images than features is singular."""
    exact, _ = both_kinds(n=120, size=600)
    _, single = both_kinds(n=120, size=600, dtype=torch.float32)
    features = torch.cat(single.rows) + single.shift
    found, used = fit_head(single, HEADS[head], gamma)
    assert used == gamma if gamma > 1e-5 else 0 < used <= 1e-3
    truth, _ = fit_head(exact, HEADS[head], used)
    ours, theirs = found.scores(features).double(), truth.scores(features.double())
    # If the ridge is the only within scatter, LDA finds the direction more accurately than the length.
    assert float(torch.nn.functional.cosine_similarity(ours, theirs, dim=0).min()) > 0.9999
    assert torch.equal(ours.argmax(1), theirs.argmax(1))
    if head == "ridge":
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_no_ridge_at_all_is_refused():
    _, by_rows = both_kinds()
    with pytest.raises(NotPositiveDefiniteError, match="fewer images than features"):
        factorise(by_rows, 0.0)


def test_constant_features_have_a_head_without_weights():
    for kind in (Moments, RowMoments):
        sums = kind.zeros(torch.zeros(9).double(), 2)
        sums.add(torch.full((4, 9), 2.0).double(), torch.eye(2).double().repeat(2, 1))
        head, _ = fit_head(sums, one_vs_rest_lda, 0.1)
        assert not bool(head.weights.any()) and bool(head.bias.isfinite().all())


def test_some_targets_are_solved_from_the_factor_of_all():
    by_gram, by_rows = both_kinds()
    halves = [multiclass_lda(factorise(sums, 0.1), sums.with_targets(slice(1, 3))) for sums in (by_gram, by_rows)]
    torch.testing.assert_close(halves[1].weights, halves[0].weights, rtol=1e-7, atol=1e-9)


def test_nan_features_are_refused():
    _, by_rows = both_kinds()
    by_rows.rows[0][0, 0] = torch.nan
    with pytest.raises(FloatingPointError, match="NaN or infinity"):
        by_rows.solver(torch.ones(90).double(), 0.1, cholesky_solver)
