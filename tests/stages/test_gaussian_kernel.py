"""Distances summed over layers and their kernel, against loops over pairs of images."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rescnet.stages.gaussian_kernel import PairDistances, Standard

WIDTHS = 7, 4  # features of two layers
SCALE = 0.05
DOUBLE = torch.zeros(1, dtype=torch.float64)


@pytest.fixture
def small_parts(monkeypatch):
    """Standardise a few images at a time."""
    monkeypatch.setattr("rescnet.stages.gaussian_kernel.PART", 30)


def layers_of(images, views, generator):
    """Return features of two layers, each (views, images, D)."""
    return [torch.randn(views, images, width, generator=generator, dtype=torch.float64) for width in WIDTHS]


def swapped(layers):
    """Return the features of the mirror images: an image's two views change places."""
    return [features.flip(0) for features in layers]


def distances_of(rows, columns, like=DOUBLE):
    found = PairDistances(rows[0].shape[1], columns[0].shape[1], len(rows[0]), like)
    for a, b in zip(rows, columns, strict=True):
        found.add(a, b)
    return found


def naive_kernel(rows, columns, scale=SCALE):
    """Return k of all pairs, one after the other."""
    x, y = (np.concatenate([layer.double().numpy() for layer in layers], axis=2) for layers in (rows, columns))
    kernel = np.zeros((x.shape[1], y.shape[1]))
    for i in range(x.shape[1]):
        for j in range(y.shape[1]):
            if len(x) == 1:
                kernel[i, j] = np.exp(-scale * squared(x[0, i], y[0, j]))
            else:
                straight = squared(x[0, i], y[0, j]) + squared(x[1, i], y[1, j])
                crossed = squared(x[0, i], y[1, j]) + squared(x[1, i], y[0, j])
                kernel[i, j] = np.exp(-scale * straight) / 2 + np.exp(-scale * crossed) / 2
    return kernel


def squared(a, b):
    return ((a - b) ** 2).sum()


@pytest.mark.parametrize("views", [1, 2])
def test_features_are_standardised_over_images_and_views(views, generator, small_parts):
    """All views have one mean and one deviation, those of all of them together."""
    features = 3 + 5 * torch.randn(views, 11, 6, generator=generator, dtype=torch.float64)
    features[-1] += 2
    rows = features.flatten(0, 1).numpy().copy()
    standard = Standard.of(features)
    np.testing.assert_allclose(standard.mean, rows.mean(0))
    np.testing.assert_allclose(standard.scale, 1 / rows.std(0))
    expected = ((rows - rows.mean(0)) / rows.std(0)).reshape(views, 11, 6)
    assert standard.apply_(features) is features
    np.testing.assert_allclose(features, expected, atol=1e-12)


def test_new_images_are_standardised_by_the_training_images(generator):
    """What new images are like changes nothing."""
    known, new = (torch.randn(1, n, 5, generator=generator, dtype=torch.float64) for n in (9, 4))
    expected = (new[0].numpy() - known[0].numpy().mean(0)) / known[0].numpy().std(0)
    np.testing.assert_allclose(Standard.of(known).apply_(new)[0], expected, atol=1e-12)


@pytest.mark.parametrize("constant", [0.0, 1.0, -4.5])
def test_constant_features_become_zero(constant, generator, dtype):
    """They tell nothing of the training images, so they count for no new image, however different it is."""
    features, new = (torch.randn(2, 50, 3, generator=generator, dtype=dtype) for _ in range(2))
    features[..., 1] = constant
    standard = Standard.of(features)
    assert standard.scale[1] == 0
    assert bool((standard.apply_(features)[..., 1] == 0).all() and (standard.apply_(new)[..., 1] == 0).all())
    assert bool((standard.scale[[0, 2]] > 0).all())


def test_constant_features_become_zero_where_their_mean_is_rounded(dtype):
    """Equal numbers are equal, though their sum over images is rounded."""
    constants = torch.rand(200, generator=torch.Generator().manual_seed(0), dtype=dtype)
    assert bool((Standard.of(constants.expand(1, 300, 200).clone()).scale == 0).all())


@pytest.mark.parametrize("views", [1, 2])
def test_the_kernel_matches_the_loop(views, generator, small_parts):
    """Products summed over two layers are the distances of all features together."""
    rows, columns = layers_of(9, views, generator), layers_of(6, views, generator)
    found = distances_of(rows, columns).kernel_(SCALE)
    assert found.shape == (9, 6)
    np.testing.assert_allclose(found, naive_kernel(rows, columns), atol=1e-12)


@pytest.mark.parametrize("views", [1, 2])
def test_the_kernel_of_an_image_with_itself(views, generator):
    """An image is as near to itself as can be; with mirror images, one whose views are alike is."""
    layers = [features[:1].expand(views, -1, -1) for features in layers_of(5, 1, generator)]
    found = distances_of(layers, layers).kernel_(SCALE)
    np.testing.assert_allclose(found.diagonal(), 1, atol=1e-12)
    assert float(found.max()) <= 1


@pytest.mark.parametrize("views", [1, 2])
def test_the_median_is_that_of_all_pairs_as_they_are(views, generator, small_parts):
    """Mirrored pairings do not count."""
    layers = layers_of(7, views, generator)  # 21 pairs: an odd number has one median
    x = np.concatenate([features.numpy() for features in layers], axis=2)
    pairs = [sum(squared(view[i], view[j]) for view in x) for i in range(7) for j in range(i)]
    assert distances_of(layers, layers).median() == pytest.approx(np.median(pairs))


def test_the_median_of_many_images_is_that_of_some(generator):
    """It uses at most n images, evenly spread."""
    layers = layers_of(8, 1, generator)
    x = np.concatenate([features[0].numpy() for features in layers], axis=1)
    pairs = [squared(x[i], x[j]) for i, j in ((3, 0), (6, 0), (6, 3))]
    assert distances_of(layers, layers).median(most=3) == pytest.approx(np.median(pairs))


def test_one_image_has_no_median(generator):
    """There is no pair."""
    layers = layers_of(1, 1, generator)
    assert distances_of(layers, layers).median() == 0


def test_a_mirror_image_is_the_same_to_the_mirrored_kernel(generator):
    """Swapping the views of either image changes nothing; without mirror images it would."""
    rows, columns = layers_of(6, 2, generator), layers_of(5, 2, generator)
    found = distances_of(rows, columns).kernel_(SCALE)
    for a, b in ((swapped(rows), columns), (rows, swapped(columns)), (swapped(rows), swapped(columns))):
        torch.testing.assert_close(distances_of(a, b).kernel_(SCALE), found, rtol=0, atol=1e-12)
    first = [features[:1] for features in rows], [features[:1] for features in columns]
    other = [features[1:] for features in rows], first[1]
    assert float((distances_of(*first).kernel_(SCALE) - distances_of(*other).kernel_(SCALE)).abs().max()) > 0.01


@pytest.mark.parametrize("scale", [0.003, 0.05, 1.0])
def test_the_mirrored_kernel_is_symmetric_and_positive_semi_definite(scale, generator):
    """So what is regressed on it has a solution, with any ridge."""
    layers = layers_of(30, 2, generator)
    layers = [torch.cat([features, features.flip(0)[:, :10]], dim=1) for features in layers]  # and some mirror images
    found = distances_of(layers, layers).kernel_(scale)
    torch.testing.assert_close(found, found.T, rtol=0, atol=1e-12)
    eigenvalues = np.linalg.eigvalsh(found.numpy())
    assert eigenvalues.min() > -1e-12
    assert (eigenvalues < 1e-12).sum() >= 10  # an image and its mirror image are one


@pytest.mark.parametrize("views", [1, 2])
def test_halves_come_near_doubles(views, generator, small_parts):
    """Features in half precision, with sums in single precision, give the kernel to three digits."""
    exact = [layers_of(n, views, generator) for n in (9, 6)]
    halves = [[(40 + 3 * features).half() for features in layers] for layers in exact]
    for layer in range(2):
        for parts in (exact, halves):
            standard = Standard.of(parts[1][layer])
            for layers in parts:
                standard.apply_(layers[layer])
    assert halves[0][0].dtype == torch.float16
    found = distances_of(*halves, like=torch.zeros(1)).kernel_(SCALE)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, naive_kernel(*exact), atol=5e-3)
    np.testing.assert_allclose(found, naive_kernel(*halves), atol=1e-5)  # of the same halves, to single precision


def test_a_feature_far_from_all_known_ones_does_not_overflow():
    """One that hardly varied has a large scale: what is far off is as far as halves can tell, and no NaN."""
    known = torch.zeros(1, 50, 64, dtype=torch.float16)
    known[0, 0, 3] = 1e-4
    known[0, :, 0] = torch.linspace(0, 1, 50)
    new = known[:, :2].clone()
    new[0, 0, 3] = 0.5
    standard = Standard.of(known)
    rows, columns = standard.apply_(new), standard.apply_(known)
    assert bool(rows.isfinite().all())
    distances = PairDistances(2, 50, 1, torch.zeros((), dtype=torch.float32))
    distances.add(rows, columns)
    assert bool(distances.kernel_(0.01).isfinite().all())
