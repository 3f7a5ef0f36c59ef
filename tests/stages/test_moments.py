"""Sums of half-precision and float32 features against float64, and heads solved in the dual form."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits
from train_network import train_network

from rescnet import ComputeOptions, Config
from rescnet.numerics.linear_algebra import CPU_PANEL, NotPositiveDefiniteError, cholesky_solver
from rescnet.stages.discriminant import factorise, fit_head, multiclass_lda, one_vs_rest_lda, ridge_regression
from rescnet.stages.moments import Moments, RowMoments, column_squares

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(scope="module")
def layer_features():
    """The second-order features of a first layer on the digits, shape (300, D), and their classes."""
    bunch = load_digits()
    images, labels = bunch.images[:300, None].astype("float32"), bunch.target[:300]
    config = Config("digits", layers=1, filters=12).complete()
    network, _ = train_network(images, labels, config, compute=ComputeOptions(device="cpu"))
    stack = network.stack
    return stack.features(stack.maps(stack.layers[0], None, torch.as_tensor(images))), torch.as_tensor(labels)


def solved(features, labels, feature_type, sum_type, ridge=0.1):
    """Return the moments of features in one type, summed in another, and the scores of an LDA head."""
    features, labels = features.to(DEVICE), labels.to(DEVICE)
    targets = torch.nn.functional.one_hot(labels, 10).to(sum_type)
    moments = Moments.zeros(features[:50].to(sum_type).mean(0).half().to(sum_type), 10)
    for part in (slice(0, 250), slice(250, None)):
        moments.add(features[part].to(feature_type), targets[part])
    head = one_vs_rest_lda(factorise(moments, ridge), moments)
    return moments, head.scores(features.to(sum_type))


@pytest.mark.slow
@pytest.mark.parametrize(("feature_type", "bound"), [(torch.float16, 2e-3), (torch.float32, 1e-4)])
def test_gram_and_scores_against_float64(feature_type, bound, layer_features):
    exact_moments, exact_scores = solved(*layer_features, torch.float64, torch.float64)
    moments, scores = solved(*layer_features, feature_type, torch.float32)
    spectrum = torch.linalg.eigvalsh(exact_moments.scatter())
    assert spectrum[-1] > 1e4 * spectrum[len(spectrum) // 2].clamp_min(1e-12), "features are not ill-conditioned"
    lower = moments.gram.double().tril() - exact_moments.gram.tril()
    assert float(lower.norm() / exact_moments.gram.tril().norm()) < bound
    assert float((scores.double() - exact_scores).norm() / exact_scores.norm()) < 10 * bound
    agreement = (scores.argmax(1) == exact_scores.argmax(1)).double().mean()
    assert float(agreement) > 0.995


def test_float64_sums_are_exact(layer_features):
    """Up to the rounding of float64 itself, whatever the chunks."""
    features, labels = layer_features
    moments, _ = solved(features, labels, torch.float64, torch.float64)
    shifted = features.double().to(DEVICE) - moments.shift
    torch.testing.assert_close(moments.gram.tril(), (shifted.T @ shifted).tril(), rtol=1e-12, atol=1e-12)


def test_a_large_gram_is_right_in_its_lower_triangle(generator):
    """Large enough for several panels: the upper triangle is not computed and never read."""
    features = torch.randn(40, 2 * CPU_PANEL + 100, generator=generator, dtype=torch.float64)
    targets = torch.nn.functional.one_hot(torch.arange(40) % 4).double()
    moments = Moments.zeros(features[:5].mean(0), 4)
    moments.add(features[:15], targets[:15])
    moments.add(features[15:], targets[15:])
    expected = torch.cov(features.T, correction=0)
    torch.testing.assert_close(moments.scatter().tril(), expected.tril())
    assert float((moments.scatter() - expected).abs().max()) > 0.01
    head = one_vs_rest_lda(factorise(moments, 0.1), moments)
    moments.gram += moments.gram.tril(-1).T - moments.gram.triu(1)
    torch.testing.assert_close(head.weights, one_vs_rest_lda(factorise(moments, 0.1), moments).weights)


HEADS = {"lda": one_vs_rest_lda, "multiclass-lda": multiclass_lda, "ridge": ridge_regression}


def both_kinds(n=40, size=90, dtype=torch.float64):
    """Return the sums of both kinds over the same images, in three chunks; the last feature is constant."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % 4
    spread = torch.randn(size, size, generator=generator, dtype=torch.float64) / size**0.5
    features = torch.randn(n, size, generator=generator, dtype=torch.float64) @ spread + labels[:, None] / 4 + 5
    features[:, -1] = 3.0
    wide = torch.promote_types(dtype, torch.float32)
    targets = torch.nn.functional.one_hot(labels, 4).to(wide)
    found = []
    for kind in (Moments, RowMoments):
        sums = kind.zeros(features[:5].mean(0).to(dtype).to(wide), 4)
        for part in (slice(0, 7), slice(7, 8), slice(8, n)):
            sums.add(features[part].to(dtype), targets[part])
        found.append(sums)
    return found


@pytest.mark.parametrize("block", [2**28, 8 * 40 * 64])
@pytest.mark.parametrize("gamma", [1e-3, 2.0])
@pytest.mark.parametrize("head", HEADS)
def test_heads_are_those_of_the_gram_matrix(head, gamma, block, monkeypatch):
    monkeypatch.setattr("rescnet.stages.moments.BLOCK_BYTES", block)
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
    rows = torch.cat(by_rows.rows) - by_rows.shift
    scatter = rows.T @ rows / by_rows.count - by_rows.mean_offset[:, None] * by_rows.mean_offset
    torch.testing.assert_close(scatter.tril(), by_gram.scatter().tril(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.0, 1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("head", HEADS)
def test_single_precision_is_near_the_truth_however_small_the_ridge(head, gamma):
    """Without a ridge it is raised: the scatter of fewer images than features is singular."""
    exact, _ = both_kinds(n=120, size=600)
    _, single = both_kinds(n=120, size=600, dtype=torch.float32)
    features = torch.cat(single.rows)
    found, used = fit_head(single, HEADS[head], gamma)
    assert used == gamma if gamma > 1e-5 else 0 < used <= 1e-3
    truth, _ = fit_head(exact, HEADS[head], used)
    ours, theirs = found.scores(features).double(), truth.scores(features.double())
    # If the ridge is the only within scatter, LDA finds the direction more accurately than the length.
    assert float(torch.nn.functional.cosine_similarity(ours, theirs, dim=0).min()) > 0.9999
    assert torch.equal(ours.argmax(1), theirs.argmax(1))
    if head == "ridge":
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("gamma", [0.04, 2.0])
@pytest.mark.parametrize("head", HEADS)
def test_half_precision_rows_are_near_the_truth(head, gamma):
    exact, _ = both_kinds(n=120, size=600)
    _, half = both_kinds(n=120, size=600, dtype=torch.float16)
    assert half.rows[0].dtype == torch.float16 and half.total.dtype == torch.float32
    features = torch.cat(half.rows).float()
    ours, theirs = (
        HEADS[head](factorise(sums, gamma), sums).scores(features.to(sums.total)).double() for sums in (half, exact)
    )
    assert float(torch.nn.functional.cosine_similarity(ours, theirs, dim=0).min()) > 0.999
    assert torch.equal(ours.argmax(1), theirs.argmax(1))


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


def test_squares_of_columns_do_not_enlarge_an_exported_graph(generator):
    """A readout of 1,797 digits had 1,008 pieces, and took a quarter of an hour to convert to ONNX."""

    class Squares(torch.nn.Module):
        def forward(self, x):
            return column_squares(x, torch.float32)

    x = torch.randn(500, 3, generator=generator)
    program = torch.export.export(Squares(), (x,))
    assert len(program.graph.nodes) < 20
    torch.testing.assert_close(program.module()(x), x.square().sum(0))
    torch.testing.assert_close(column_squares(x, torch.float32), x.square().sum(0))
