from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from patch_sources import source_of
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from rescnet.config.banks import NotEnoughFiltersError, parse_mixture, share_out
from rescnet.stages.filters import BankOptions, Filters, find_bank, learn_filters, register_bank
from rescnet.stages.filters.stacked_lda import discriminate, draw_patches


@pytest.fixture
def source(blobs):
    return source_of(*blobs)


def all_patches(blobs, size=3):
    images = blobs[0].astype(float)
    scaled = (images - images.min()) / (images.max() - images.min())
    return np.array([v for image in naive.patches(scaled, size) for v in image])


def test_covariance_of_the_source_is_that_of_all_patches_whatever_the_chunk(blobs):
    patches = all_patches(blobs)
    expected = np.cov(patches.T, bias=True)
    for chunk in (1, 7, 1000):
        np.testing.assert_allclose(source_of(*blobs, chunk=chunk).covariance(), expected, atol=1e-12)


def test_sampled_covariance_comes_close_and_depends_on_the_seed(blobs, source):
    exact = source.covariance()
    found = source_of(*blobs, patch_samples=20_000).covariance()
    assert float((found - exact).norm() / exact.norm()) < 0.05
    assert not torch.equal(found, source_of(*blobs, patch_samples=20_000, seed=1).covariance())
    assert torch.equal(found, source_of(*blobs, patch_samples=20_000).covariance())


def test_gathered_patches_are_scaled_like_the_input(blobs, source):
    patches = all_patches(blobs).reshape(len(blobs[0]), 10, 10, -1)
    image, row, column = torch.tensor([0, 9, 200]), torch.tensor([0, 9, 4]), torch.tensor([3, 0, 7])
    np.testing.assert_allclose(source.gather(image, row, column), patches[image, row, column], atol=1e-12)


def test_pca_filters_are_scikit_learns_components(blobs, source, generator):
    filters = find_bank("pca")(source, 6, generator, BankOptions())
    expected = PCA(6).fit(all_patches(blobs)).components_
    found = filters.weights.numpy()
    np.testing.assert_allclose(np.abs((found * expected).sum(1)), 1, atol=1e-8)
    assert bool((filters.weights.gather(1, filters.weights.abs().argmax(1, keepdim=True)) > 0).all())
    assert bool((filters.bias == 0).all())


def test_drawn_signs_turn_some_pca_filters_and_come_from_the_seed(source, generator):
    fixed = find_bank("pca")(source, 20, generator, BankOptions(pca_bias="mean"))
    drawn = BankOptions(pca_bias="mean", pca_signs="drawn")
    once, again, other = (find_bank("pca")(source, 20, torch.Generator().manual_seed(s), drawn) for s in (0, 0, 1))
    signs = (once.weights * fixed.weights).sum(1)
    assert {-1.0, 1.0} == set(signs.round(decimals=9).tolist())
    torch.testing.assert_close(once.weights, signs[:, None] * fixed.weights)
    torch.testing.assert_close(once.bias, signs * fixed.bias)
    assert torch.equal(once.weights, again.weights) and not torch.equal(once.weights, other.weights)


def test_each_patch_centring_is_that_of_patches_less_their_own_means(blobs):
    patches = all_patches(blobs).reshape(-1, 3, 9)
    expected = np.cov((patches - patches.mean(2, keepdims=True)).reshape(-1, 27).T, bias=True)
    np.testing.assert_allclose(source_of(*blobs, centring="each-patch").covariance(), expected, atol=1e-12)


def test_each_patch_centring_leaves_rank_24_of_27(blobs):
    covariance = source_of(*blobs, centring="each-patch").covariance()
    assert int((torch.linalg.eigvalsh(covariance) > 1e-10).sum()) == 24


def test_more_pca_filters_than_numbers_in_a_patch_are_refused(source, generator):
    with pytest.raises(NotEnoughFiltersError, match="28 PCA filters were asked of patches with 27 numbers"):
        find_bank("pca")(source, 28, generator, BankOptions())


@pytest.mark.parametrize("dimension", [5, 27, 90])  # fewer and more than the 34 patches of a draw
def test_a_draw_is_scikit_learns_lda(dimension, generator):
    """Primal and dual solutions both equal an LDA with the same ridge."""
    options = BankOptions(draw_ridge=0.05)
    patches = torch.randn(6, 34, dimension, generator=generator, dtype=torch.float64)
    weights, bias, error = discriminate(patches, options)
    labels = np.array([1] * 2 + [0] * 32)
    for draw in range(6):
        x = patches[draw].numpy()
        centred = np.vstack([x[:2] - x[:2].mean(0), x[2:] - x[2:].mean(0)])
        gamma = 0.05 * (centred**2).mean()
        w, b = naive.binary_lda(x, labels == 1, gamma)
        np.testing.assert_allclose(weights[draw].numpy(), w, rtol=1e-6, atol=1e-8)
        assert float(bias[draw]) == pytest.approx(b, rel=1e-6)
        others, constant = naive.binary_lda(x, labels == 0, gamma)  # the other class's own, against this one
        np.testing.assert_allclose((*others, constant), (*-w, -b), rtol=1e-6, atol=1e-8)
        wrong = np.mean((x @ w + b > 0) != labels)
        assert float(error[draw]) == pytest.approx(wrong)


def test_a_draw_without_ridge_is_plain_lda(generator):
    patches = torch.randn(1, 34, 5, generator=generator, dtype=torch.float64)
    weights, _, _ = discriminate(patches, BankOptions(draw_ridge=0.0))
    judge = LinearDiscriminantAnalysis(solver="lsqr").fit(patches[0].numpy(), [1] * 2 + [0] * 32)
    np.testing.assert_allclose(weights[0].numpy(), judge.coef_[0], rtol=1e-6)


def test_draws_take_positives_of_one_class_and_negatives_of_the_others(generator):
    """Each image's pixels are its label, so a patch tells where it came from."""
    labels = torch.tensor([0, 1, 1, 2, 2, 2, 2])
    images = labels.double().view(-1, 1, 1, 1).expand(-1, 1, 6, 6)
    source = source_of(images, labels)
    patches = draw_patches(source, 500, generator, BankOptions())
    told = (patches[..., 0] * 2).round()
    assert bool((told[:, :2] == told[:, :1]).all())
    assert bool((told[:, 2:] != told[:, :1]).all())
    chosen = told[:, 0].long().bincount() / 500
    assert bool((chosen > 0.25).all())  # classes are drawn evenly, not by their size
    others = told[told[:, 0] == 0][:, 2:].flatten()
    assert float((others == 2).double().mean()) == pytest.approx(4 / 6, abs=0.05)  # negatives by image


def test_stacked_lda_accepts_only_draws_within_tolerance(blobs):
    source = source_of(*blobs, size=2)  # 12 dimensions: some draws cannot be told apart

    def learn(**options):
        generator = torch.Generator().manual_seed(3)
        return find_bank("stacked-lda")(source, 40, generator, BankOptions(**options))

    filters = learn()
    assert filters.weights.shape == (40, 12)
    torch.testing.assert_close(filters.weights.norm(dim=1), torch.ones(40, dtype=torch.float64))
    assert torch.equal(filters.weights, learn().weights)
    assert not torch.equal(filters.weights, learn(tolerance=1.0).weights)
    # The accepted ones are exactly the separable draws, in order.
    generator = torch.Generator().manual_seed(3)
    weights, _, error = discriminate(draw_patches(source, 60, generator, BankOptions()), BankOptions())
    kept = weights[error <= 0]
    assert 0 < len(kept) < 60
    torch.testing.assert_close(filters.weights[: len(kept)], (kept / kept.norm(dim=1, keepdim=True))[:40])


def test_the_bias_is_the_discriminants_constant_in_the_filters_scale(source, generator):
    start = generator.get_state()
    filters = find_bank("stacked-lda")(source, 5, generator, BankOptions())
    generator.set_state(start)
    weights, bias, error = discriminate(draw_patches(source, 32, generator, BankOptions()), BankOptions())
    first = int((error <= 0).nonzero()[0])
    assert float(filters.bias[0]) == pytest.approx(float(bias[first] / weights[first].norm()))


def test_the_bias_can_leave_the_prior_or_itself_out(source):
    def learn(bias):
        generator = torch.Generator().manual_seed(3)
        return find_bank("stacked-lda")(source, 5, generator, BankOptions(bias=bias))

    whole, midpoint, none = learn("lda"), learn("midpoint"), learn("none")
    assert torch.equal(whole.weights, none.weights)
    assert bool((none.bias == 0).all())
    assert bool((midpoint.bias > whole.bias).all())  # log(2/32) is negative


def test_a_filter_may_be_as_long_as_its_discriminant(source):
    def learn(length):
        generator = torch.Generator().manual_seed(3)
        return find_bank("stacked-lda")(source, 5, generator, BankOptions(length=length))

    unit, own = learn("unit"), learn("own")
    lengths = own.weights.norm(dim=1)
    assert float(lengths.max() / lengths.min()) > 1.01
    torch.testing.assert_close(own.weights / lengths[:, None], unit.weights)
    torch.testing.assert_close(own.bias / lengths, unit.bias)


@pytest.mark.parametrize("bias", ["lda", "mean"])
@pytest.mark.parametrize("count", [5, 6])
def test_a_draw_may_give_both_classes_discriminants(source, bias, count):
    """One against the rest has two for two classes, each the other's negative."""

    def learn(sides, count):
        generator = torch.Generator().manual_seed(3)
        return find_bank("stacked-lda")(source, count, generator, BankOptions(sides=sides, bias=bias))

    one, both = learn("one", 3), learn("both", count)
    assert both.weights.shape == (count, 27) and both.bias.shape == (count,)
    for found, drawn in ((both.weights, one.weights), (both.bias, one.bias)):
        assert torch.equal(found[::2], drawn)
        assert torch.equal(found[1::2], -drawn[: count // 2])


def test_no_discriminant_without_bound_becomes_a_filter(generator):
    images = torch.zeros(40, 1, 6, 6, dtype=torch.float64)
    images[::2] = 1.0  # two patches of a class are equal, and so are all of the other
    noise = torch.rand(40, 1, 6, 6, generator=generator, dtype=torch.float64)
    images[:20] += 0.5 * noise[:20]
    source = source_of(images, torch.arange(40) % 2, size=3)
    options = BankOptions(length="own", negatives=2, draw_ridge=0.1)
    filters = find_bank("stacked-lda")(source, 20, generator, options)
    assert float(filters.weights.norm(dim=1).min()) > 0
    assert float(filters.weights.norm(dim=1).max()) < 1e4
    strict = BankOptions(length="own", negatives=2, most_draws=50, draw_ridge=0.0)
    with pytest.raises(NotEnoughFiltersError, match="set filter_length to unit, or ask for fewer"):
        find_bank("stacked-lda")(source, 400, generator, strict)


def test_more_filters_than_can_be_found_are_refused(generator):
    noise = torch.rand(40, 1, 6, 6, generator=generator, dtype=torch.float64)
    source = source_of(noise, torch.arange(40) % 2, size=1)  # one dimension: no two patches stand out from 32
    options = BankOptions(most_draws=500, negatives=200)
    with pytest.raises(NotEnoughFiltersError, match=r"only \d+ of 50 stacked-LDA filters were found in 500 draws"):
        find_bank("stacked-lda")(source, 50, generator, options)


def test_equal_patches_give_zero_filters(generator):
    source = source_of(torch.ones(8, 1, 6, 6), torch.arange(8) % 2)
    filters = find_bank("stacked-lda")(source, 3, generator, BankOptions(most_draws=100))
    assert bool((filters.weights == 0).all() and (filters.bias == 0).all())


@pytest.mark.parametrize(
    ("count", "weights", "expected"), [(50, [0.5, 0.5], [25, 25]), (7, [0.75, 0.25], [5, 2]), (5, [0.5, 0.5], [3, 2])]
)
def test_filters_are_shared_out_by_weight(count, weights, expected):
    assert share_out(count, weights) == expected


def test_a_mixture_holds_both_banks_in_order(source, generator):
    filters = learn_filters("3 pca + 1 stacked-lda", source, 8, generator, BankOptions())
    pca = find_bank("pca")(source, 6, generator, BankOptions())
    assert torch.equal(filters.weights[:6], pca.weights)
    assert filters.weights.shape == (8, 27)
    assert bool((filters.bias[6:] != 0).all())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pcaa", "no filter bank 'pcaa': did you mean 'pca'"),
        ("pca +", "cannot be read"),
        ("x pca", "cannot be read"),
        ("-1 pca", "cannot be read"),
    ],
)
def test_unreadable_mixtures_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_mixture(text)


def test_a_bank_from_outside_joins_by_one_function(source, generator):
    @register_bank("ones")
    def ones(source, count, generator, options):
        return Filters(torch.ones(count, source.channels * source.size**2).double(), torch.zeros(count).double())

    filters = learn_filters("ones + pca", source, 4, generator, BankOptions())
    assert bool((filters.weights[:2] == 1).all())


@pytest.mark.parametrize("centring", ["mean-patch", "each-patch"])
@pytest.mark.parametrize("bank", ["pca", "stacked-lda"])
def test_with_the_mean_bias_a_filter_answers_zero_on_average(blobs, bank, centring, generator):
    filters = find_bank(bank)(
        source_of(*blobs, centring=centring), 5, generator, BankOptions(bias="mean", pca_bias="mean")
    )
    answers = torch.from_numpy(all_patches(blobs)) @ filters.weights.T + filters.bias
    np.testing.assert_allclose(answers.mean(0), 0, atol=1e-12)
    assert float(filters.bias.abs().max()) > 1e-6
