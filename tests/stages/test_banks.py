"""Each bank by what defines it, on patches with something planted in them."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import torch
from scipy.fft import idctn
from scipy.linalg import eigh
from sklearn.decomposition import FastICA
from stages.patch_sources import source_of
from train_network import train_network

from rescnet import ConfigError, NetworkConfig
from rescnet.config.grammars import BANKS, Bank, NotEnoughFiltersError
from rescnet.stages.filters import BankOptions, Filters, find_bank, learn_filters, register_bank
from rescnet.stages.filters.class_sums import discriminant_directions, orthogonalising_map, position_scatters
from rescnet.stages.filters.unsupervised import binary_patterns, canonical_pairs, cosine_basis, independent_components
from rescnet.stages.patches import ImagePatches, groups_of

NAMES = sorted(BANKS)
PLAIN = [name for name in NAMES if name not in ("patches", "pca", "stacked-lda")]  # others have tests of their own


def learn(name, source, count, seed=0):
    return find_bank(name)(source, count, torch.Generator().manual_seed(seed), BankOptions())


@pytest.fixture(scope="module")
def source(blobs):
    return source_of(*blobs)


@pytest.mark.parametrize("name", NAMES)
def test_sums_over_classes_are_counted_for_the_banks_that_take_them(source, name, monkeypatch):
    asked, plain = set(), type(source).class_moments
    monkeypatch.setattr(type(source), "class_moments", lambda self, sets=1: asked.add(sets) or plain(self, sets))
    learn(name, source, 6)
    sums = BANKS[name].class_sums
    assert asked == (set() if sums is None else {sums.sets})


@pytest.mark.parametrize("name", PLAIN)
def test_every_bank_gives_unit_filters_that_its_seed_decides(source, name):
    filters = learn(name, source, 6)
    assert filters.weights.shape == (6, 27)
    torch.testing.assert_close(filters.weights.norm(dim=1), torch.ones(6, dtype=torch.float64))
    assert bool((filters.bias == 0).all())
    assert torch.equal(filters.weights, learn(name, source, 6).weights)


@pytest.mark.parametrize("name", ["pca", *(name for name in PLAIN if name != "random")])
def test_more_filters_than_there_are_is_refused(source, name):
    with pytest.raises(NotEnoughFiltersError, match=r"filters must be at most \d+ .* filters .*, got 28\. Use fewer"):
        learn(name, source, 28)


@pytest.mark.parametrize(("channels", "size"), [(1, 5), (1, 4), (3, 3)])
def test_dct_is_orthonormal_without_the_constant(channels, size):
    basis = cosine_basis(channels, size).numpy()
    assert basis.shape == (channels * size**2 - 1, channels * size**2)
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)
    np.testing.assert_allclose(basis.sum(1), 0, atol=1e-12)
    impulse = np.zeros((channels, size, size))
    impulse[0, 0, 1] = 1  # the first in zig-zag order
    np.testing.assert_allclose(basis[0], idctn(impulse, norm="ortho").ravel(), atol=1e-12)


def test_dct_goes_from_coarse_to_fine():
    basis = cosine_basis(1, 5).view(-1, 5, 5)
    changes = (basis.diff(dim=1).square().sum((1, 2)) + basis.diff(dim=2).square().sum((1, 2))).numpy()
    assert changes[:5].max() < changes[-5:].min()


def test_dct_of_patches_without_mean_leaves_every_constant_out():
    basis = cosine_basis(3, 3, varying_only=True).view(-1, 3, 9)
    assert len(basis) == 3 * 8
    torch.testing.assert_close(basis.sum(2), torch.zeros(24, 3, dtype=torch.float64))


def test_ica_unmixes_a_known_mixture(generator):
    rng = np.random.default_rng(0)
    causes = np.stack([rng.laplace(size=20_000), rng.uniform(-1, 1, 20_000), rng.laplace(size=20_000) ** 3], 1)
    mixing = rng.normal(size=(3, 3))
    mixed = torch.from_numpy(causes @ mixing.T)
    filters = independent_components(mixed, 3, generator).numpy()
    gain = np.abs(filters @ mixing * causes.std(0))
    gain /= gain.max(1, keepdims=True)
    assert sorted(gain.argmax(1)) == [0, 1, 2]
    assert np.sort(gain, axis=1)[:, 1].max() < 0.05  # each filter hears one cause and hardly any other
    judge = FastICA(3, whiten="unit-variance", random_state=0).fit(mixed.numpy()).components_
    ours, theirs = (m / np.linalg.norm(m, axis=1, keepdims=True) for m in (filters, judge))
    np.testing.assert_allclose(np.abs(ours @ theirs.T).max(1), 1, atol=1e-2)


def test_ica_outputs_are_uncorrelated(source):
    patches = source.gather(*(torch.randint(top, (5000,)) for top in (240, 10, 10)))
    outputs = patches @ learn("ica", source, 5).weights.T
    assert float((torch.corrcoef(outputs.T) - torch.eye(5)).abs().max()) < 0.1


def test_cca_recovers_a_planted_correlation():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=4000)
    a, b = rng.normal(size=4), rng.normal(size=4)
    x, y = (rng.normal(size=(4000, 4)) @ rng.normal(size=(4, 4)) for _ in range(2))
    x, y = x + 5 * shared[:, None] * a, y + 5 * shared[:, None] * b
    covariance = torch.from_numpy(np.cov(np.hstack([x, y]).T))
    u, v, correlations = canonical_pairs(covariance[:4, :4], covariance[4:, 4:], covariance[:4, 4:])
    assert float(correlations[0]) > 0.95 > 0.2 > float(correlations[1])
    assert abs(np.corrcoef(x @ u[:, 0].numpy(), shared)[0, 1]) > 0.97
    assert abs(np.corrcoef(y @ v[:, 0].numpy(), shared)[0, 1]) > 0.97


def test_cca_filters_come_in_pairs_one_on_either_view(source):
    weights = learn("cca", source, 6).weights.view(6, 3, 9)
    assert bool((weights[::2, 2] == 0).all() and (weights[1::2, :2] == 0).all())
    assert bool((weights[::2, :2].norm(dim=(1, 2)) > 0.99).all())


def test_binary_patterns_are_the_loop():
    rng = np.random.default_rng(1)
    patch = rng.integers(0, 4, (4, 4)).astype(float)
    found = binary_patterns(torch.from_numpy(patch.reshape(1, 16)), 4).numpy().reshape(4, 4) * 255
    framed = np.pad(patch, 1, mode="edge")
    around = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]
    for r in range(4):
        for q in range(4):
            code = sum(2**bit for bit, (dr, dq) in enumerate(around) if framed[r + dr, q + dq] >= patch[r, q])
            assert found[r, q] == pytest.approx(code)


def planted_by_position(noise=1.0):
    """Two classes: one has a pattern top left and its negative bottom right, the other has it the other way round.

    Averaged over positions both classes look the same.
    """
    rng = np.random.default_rng(2)
    pattern = np.array([[1.0, -1, 0], [0, 1, -1], [-1, 0, 1]]) / np.sqrt(6)
    images = rng.normal(0, noise, (400, 1, 6, 6)) * np.linspace(1, 3, 6)  # louder to the right
    labels = np.arange(400) % 2
    for image, label in zip(images, labels, strict=True):
        side = 1 - 2 * label
        image[0, :3, :3] += side * pattern
        image[0, 3:, 3:] -= side * pattern
    return images, labels, pattern


def test_lda_finds_what_separates_classes_position_by_position():
    images, labels, pattern = planted_by_position()
    source = source_of(images, labels)
    patches = np.array(naive.patches(images, 3))  # (n, positions, 9)

    def separation(direction):
        """Return the spread of class means over that within classes, at each position by itself."""
        seen = patches @ direction
        means = np.stack([seen[labels == label].mean(0) for label in (0, 1)])
        return (means.std(0) ** 2).mean() / np.mean([seen[labels == label].var(0).mean() for label in (0, 1)])

    first = learn("lda", source, 1).weights[0].numpy()
    loudest = learn("pca", source, 1).weights[0].numpy()
    assert abs(first @ pattern.ravel()) > 0.7 > 0.6 > abs(loudest @ pattern.ravel())
    assert separation(first) >= separation(pattern.ravel())
    assert separation(first) > 3 * separation(loudest)


def test_lda_scatters_are_the_loops(blobs):
    images, labels = blobs[0][:30], blobs[1][:30]
    scaled = (images - images.min()) / float(images.max() - images.min())
    x = np.array(naive.patches(scaled.astype(float), 3))  # (n, positions, M)
    means = [x[labels == c].mean(0) for c in range(6)]
    within = sum(np.mean([(p - means[c]).T @ (p - means[c]) for p in x[labels == c]], 0) for c in range(6))
    between = np.mean([(m - np.mean(means, 0)).T @ (m - np.mean(means, 0)) for m in means], 0)
    found = position_scatters(source_of(images, labels).class_moments())
    for ours, theirs in zip(found, (within, between), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs / 100, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_lda_filters_solve_the_generalised_problem_with_its_ridge(source, ridge):
    within, between = (part.numpy() for part in position_scatters(source.class_moments()))
    loaded = within + ridge * np.trace(within) / 27 * np.eye(27)
    expected = eigh(between, loaded)[1][:, ::-1][:, :4]
    found = find_bank("lda")(source, 4, torch.Generator(), BankOptions(within_ridge=ridge)).weights.numpy()
    alignment = np.abs((found * (expected / np.linalg.norm(expected, axis=0)).T).sum(1))
    np.testing.assert_allclose(alignment, 1, atol=1e-6)
    options = BankOptions(within_ridge=ridge, orthonormal=True)
    orthonormal = find_bank("lda")(source, 4, torch.Generator(), options).weights.numpy()
    np.testing.assert_allclose(orthonormal @ orthonormal.T, np.eye(4), atol=1e-10)
    for count in range(1, 5):  # they span what the first eigenvectors span
        inside = found[:count] @ orthonormal[:count].T @ orthonormal[:count]
        np.testing.assert_allclose(inside, found[:count], atol=1e-8)


def test_class_moments_do_not_depend_on_chunks(blobs):
    one, other = (source_of(*blobs, chunk=chunk).class_moments(2) for chunk in (7, 1000))
    assert one.images.tolist() == [20] * 12
    for name in ("outer", "by_position"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name))


def test_class_moments_of_patches_less_their_own_means(blobs):
    images, labels = blobs[0][:30], blobs[1][:30]
    scaled = (images - images.min()) / float(images.max() - images.min())
    x = np.array(naive.patches(scaled.astype(float), 3)).reshape(30, -1, 3, 9)
    x = (x - x.mean(3, keepdims=True)).reshape(30, -1, 27)
    found = source_of(images, labels).class_moments().without_patch_means(3)
    for c in range(6):
        members = x[labels == c]
        np.testing.assert_allclose(found.outer[c], np.einsum("npi,npj->ij", members, members), atol=1e-10)
        np.testing.assert_allclose(found.by_position[c], members.sum(0), atol=1e-12)


def test_images_are_dealt_out_to_the_sets_of_their_class():
    group, groups = groups_of(torch.tensor([0, 2, 0, 0, 2]), 2)
    assert groups == 6
    assert group.tolist() == [0, 4, 1, 0, 5]


def test_orthogonal_subspace_makes_class_subspaces_orthogonal(generator):
    bases = torch.linalg.qr(torch.randn(3, 12, 3, generator=generator, dtype=torch.float64)).Q  # 9 of 12 dimensions
    assert float((bases[0].T @ bases[1]).abs().max()) > 0.1
    mapped = orthogonalising_map(bases) @ bases  # (3, rank, 3)
    for one in range(3):
        for other in range(3):
            product = mapped[one].T @ mapped[other]
            expected = torch.eye(3).double() if one == other else torch.zeros(3, 3).double()
            torch.testing.assert_close(product, expected, rtol=0, atol=1e-10)


def test_canonical_directions_bring_sets_of_a_class_together_and_classes_apart():
    """Sets of a class share a plane within 4 dimensions that differ by class; all sets share 2 loud ones."""
    rng = np.random.default_rng(3)
    size, q = 10, 3
    bases = []
    for label in range(3):
        own = rng.normal(size=(size, 1)) * np.r_[np.zeros(2), np.ones(8)][:, None]
        for _ in range(2):
            common = np.eye(size)[:, :2] + 0.4 * rng.normal(size=(size, 2))
            bases.append(np.linalg.qr(np.hstack([common, own]))[0])
        assert label >= 0
    subspaces = torch.from_numpy(np.stack(bases))
    classes = torch.tensor([0, 0, 1, 1, 2, 2])

    def correlations(rows):
        mapped = torch.linalg.qr(rows @ subspaces).Q
        values = torch.linalg.svdvals(mapped[:, None].transpose(-1, -2) @ mapped[None]).mean(-1)
        same = (classes[:, None] == classes) & ~torch.eye(6, dtype=torch.bool)
        return float(values[same].mean()), float(values[classes[:, None] != classes].mean())

    before = correlations(torch.eye(size).double())
    after = correlations(discriminant_directions(subspaces, classes, 5))
    assert after[0] - after[1] > before[0] - before[1] + 0.05
    assert subspaces.shape == (6, size, q)


def test_one_bank_per_layer_and_mixtures_in_a_network(blobs):
    images, labels = blobs[0][:60], blobs[1][:60]
    sizes = {"filters": 6, "layers": 2, "block_sizes": [4], "block_stride": 4, "pyramid": (1,), "filter_size": 3}
    network, _ = train_network(
        images, labels, NetworkConfig(bank="dct; 2 pca + 1 random", **sizes, stop_at_zero_error=False)
    )
    first, second = (layer.weights.flatten(1).double() for layer in network.layers)
    torch.testing.assert_close(first, cosine_basis(3, 3)[:6], atol=1e-6, rtol=0)
    generator = torch.Generator().manual_seed(2)  # of layer 2 with seed 0
    expected = find_bank("random")(
        ImagePatches(torch.zeros(1, 9, 3, 3), torch.zeros(1), 3), 2, generator, BankOptions()
    )
    torch.testing.assert_close(second[4:], expected.weights, atol=1e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_every_bank_works_in_both_layers_of_a_network(blobs, name):
    images, labels = blobs[0][:60], blobs[1][:60]
    config = NetworkConfig(
        bank=f"3 {name} + 1 pca",
        filters=4,
        layers=2,
        block_sizes=(4,),
        block_stride=4,
        pyramid=(1,),
        stop_at_zero_error=False,
    )
    network, history = train_network(images, labels, config)
    assert len(network.layers) == 2
    assert history[-1].train_accuracy > 0.3


@pytest.mark.parametrize(("filters", "bias"), [(3, 3), (4, 3)])
def test_a_bank_that_returns_another_number_is_refused(source, monkeypatch, filters, bias):
    monkeypatch.setitem(BANKS, "own", Bank())  # and remove it at the end
    size = source.channels * source.size**2
    register_bank("own")(lambda *_: Filters(torch.zeros(filters, size), torch.zeros(bias)))
    with pytest.raises(ValueError, match=rf"^bank 'own' must return weights of shape \(4, {size}\) and a bias"):
        learn_filters("own", source, 4, torch.Generator(), BankOptions())


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (lambda shape: torch.zeros(shape), "must return Filters, got an object of type Tensor"),
        (lambda shape: Filters(torch.full(shape, torch.nan), torch.zeros(shape[0])), "must return finite filters, got"),
    ],
)
def test_what_is_no_filter_is_refused(source, monkeypatch, found, message):
    monkeypatch.setitem(BANKS, "own", Bank())  # and remove it at the end
    register_bank("own")(lambda *_: found((4, source.channels * source.size**2)))
    with pytest.raises(ConfigError, match=f"bank 'own' {message}"):
        learn_filters("own", source, 4, torch.Generator(), BankOptions())


def test_names_of_banks_are_free_and_readable(monkeypatch):
    with pytest.raises(ValueError, match="bank 'pca' must have a name that rescnet does not use"):
        register_bank("pca")(lambda *_: None)
    with pytest.raises(ValueError, match="bank must have a name without spaces"):
        register_bank("my bank")(lambda *_: None)
