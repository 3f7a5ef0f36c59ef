"""Patch source; filters of PCA, stacked LDA and whitened patches; and mixtures."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from stages.patch_sources import source_of

from rescnet.config.grammars import NotEnoughFiltersError
from rescnet.stages.filters import BankOptions, Filters, find_bank, learn_filters, register_bank
from rescnet.stages.filters.bank import sample_patches
from rescnet.stages.filters.stacked_lda import discriminate, draw_patches


@pytest.fixture(scope="module")
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
        others, constant = naive.binary_lda(x, labels == 0, gamma)  # the discriminant of the other class
        np.testing.assert_allclose((*others, constant), (*-w, -b), rtol=1e-6, atol=1e-8)
        wrong = np.mean((x @ w + b > 0) != labels)
        assert float(error[draw]) == pytest.approx(wrong)


def test_a_draw_without_ridge_is_plain_lda(generator):
    patches = torch.randn(1, 34, 5, generator=generator, dtype=torch.float64)
    weights, _, _ = discriminate(patches, BankOptions(draw_ridge=0.0))
    judge = LinearDiscriminantAnalysis(solver="lsqr").fit(patches[0].numpy(), [1] * 2 + [0] * 32)
    np.testing.assert_allclose(weights[0].numpy(), judge.coef_[0], rtol=1e-6)


@pytest.mark.parametrize("numbers", [(0, 1, 2), (0, 1, 40_000)])  # of the classes
def test_draws_take_positives_of_one_class_and_negatives_of_the_others(numbers, generator):
    """Each image's pixels are its label, so a patch shows which class it comes from."""
    labels = torch.tensor([0, 1, 1, 2, 2, 2, 2])
    images = labels.double().view(-1, 1, 1, 1).expand(-1, 1, 6, 6)
    source = source_of(images, torch.tensor(numbers)[labels])
    patches = draw_patches(source, 500, generator, BankOptions())
    label = (patches[..., 0] * 2).round()
    assert bool((label[:, :2] == label[:, :1]).all())
    assert bool((label[:, 2:] != label[:, :1]).all())
    chosen = label[:, 0].long().bincount() / 500
    assert bool((chosen > 0.25).all())  # classes are drawn evenly, not by their size
    others = label[label[:, 0] == 0][:, 2:].flatten()
    assert float((others == 2).double().mean()) == pytest.approx(4 / 6, abs=0.05)  # negatives by image


def test_stacked_lda_accepts_only_draws_within_tolerance(blobs):
    source = source_of(*blobs, size=2)  # 12 dimensions: some draws cannot be separated

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


@pytest.mark.parametrize("bias", ["lda", "mean"])
@pytest.mark.parametrize("count", [5, 6])
def test_a_draw_may_give_both_classes_discriminants(source, bias, count):
    """One against the rest has two for two classes, each the other's negative."""

    def learn(signs, count):
        generator = torch.Generator().manual_seed(3)
        return find_bank("stacked-lda")(
            source, count, generator, BankOptions(stacked_lda_signs=signs, stacked_lda_bias=bias)
        )

    one, both = learn("one", 3), learn("both", count)
    assert both.weights.shape == (count, 27) and both.bias.shape == (count,)
    for found, drawn in ((both.weights, one.weights), (both.bias, one.bias)):
        assert torch.equal(found[::2], drawn)
        assert torch.equal(found[1::2], -drawn[: count // 2])


def test_more_filters_than_can_be_found_are_refused(generator, monkeypatch):
    monkeypatch.setattr("rescnet.stages.filters.stacked_lda.MOST_DRAWS", 500)
    noise = torch.rand(40, 1, 6, 6, generator=generator, dtype=torch.float64)
    source = source_of(noise, torch.arange(40) % 2, size=1)  # one dimension: no two patches stand out from 32
    with pytest.raises(NotEnoughFiltersError, match=r"got \d+ of 50 in 500 draws\. Raise tolerance \(now 0\)"):
        find_bank("stacked-lda")(source, 50, generator, BankOptions(negatives=200))


def test_equal_patches_give_zero_filters(generator):
    source = source_of(torch.ones(8, 1, 6, 6), torch.arange(8) % 2)
    filters = find_bank("stacked-lda")(source, 3, generator, BankOptions())
    assert bool((filters.weights == 0).all() and (filters.bias == 0).all())


def test_a_mixture_holds_both_banks_in_order(source, generator):
    filters = learn_filters("3 pca + 1 stacked-lda", source, 8, generator, BankOptions())
    pca = find_bank("pca")(source, 6, generator, BankOptions())
    assert torch.equal(filters.weights[:6], pca.weights)
    assert filters.weights.shape == (8, 27)
    assert bool((filters.bias[6:] != 0).all())


def test_a_bank_from_outside_joins_by_one_function(source, generator):
    @register_bank("ones")
    def ones(source, count, generator, options):
        return Filters(torch.ones(count, source.channels * source.size**2).double(), torch.zeros(count).double())

    filters = learn_filters("ones + pca", source, 4, generator, BankOptions())
    assert bool((filters.weights[:2] == 1).all())


@pytest.mark.parametrize("bank", ["pca", "stacked-lda"])
def test_with_the_mean_bias_responses_are_zero_on_average(blobs, source, bank, generator):
    filters = find_bank(bank)(source, 5, generator, BankOptions(stacked_lda_bias="mean", pca_bias="mean"))
    responses = torch.from_numpy(all_patches(blobs)) @ filters.weights.T + filters.bias
    np.testing.assert_allclose(responses.mean(0), 0, atol=1e-12)
    assert float(filters.bias.abs().max()) > 1e-6


def whitened_patches(source, count, seed=0, **options):
    return find_bank("patches")(source, count, torch.Generator().manual_seed(seed), BankOptions(**options))


@pytest.fixture(scope="module")
def moments(blobs):
    patches = all_patches(blobs)
    return patches.mean(0), naive.covariance(patches)


@pytest.mark.parametrize("ridge", [0.0, 0.1, 3.0])
def test_a_patch_filter_is_a_drawn_patch_whitened_twice(source, moments, ridge, monkeypatch):
    monkeypatch.setattr("rescnet.stages.filters.unsupervised.RIDGE", ridge)
    mean, covariance = moments
    found = whitened_patches(source, 5, pca_bias="mean")
    drawn = sample_patches(source, torch.Generator().manual_seed(0), 5).numpy()
    epsilon = ridge * np.trace(covariance) / 27
    for patch, weights, bias in zip(drawn, found.weights.numpy(), found.bias.numpy(), strict=True):
        expected = np.linalg.inv(covariance + epsilon * np.eye(27)) @ (patch - mean)
        expected /= np.linalg.norm(expected)
        np.testing.assert_allclose(weights, expected, atol=1e-7)
        assert bias == pytest.approx(-expected @ mean, abs=1e-7)


def test_the_seed_decides_which_patches(source):
    first = whitened_patches(source, 4)
    assert torch.equal(first.weights, whitened_patches(source, 4).weights)
    assert not torch.allclose(first.weights, whitened_patches(source, 4, seed=1).weights, atol=0.1)
    assert bool((first.bias == 0).all())


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_equal_patches_whitened_give_finite_filters(ridge, monkeypatch):
    monkeypatch.setattr("rescnet.stages.filters.unsupervised.RIDGE", ridge)
    flat = whitened_patches(source_of(torch.ones(8, 1, 6, 6), torch.arange(8) % 2), 3, pca_bias="mean")
    assert bool(flat.weights.isfinite().all() and flat.bias.isfinite().all())
