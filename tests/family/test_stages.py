"""Stages of a member against loops: filters from all patches, maps, and patch sums."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import torch

from rescnet.family.config import FamilyConfig, make_member
from rescnet.family.fitting import Fitting, fit_member
from rescnet.family.network import Stage, filter_maps
from rescnet.family.patches import StagePatches, sums_of_images, z_score_patches
from rescnet.stages.patches import extract_patches, sum_by_group

CPU = torch.device("cpu")
SMALL = {"filters": (4, 3), "filter_sizes": (3,), "block_size": 4, "block_stride": 2}


@pytest.fixture(scope="module")
def some(blobs):
    return torch.from_numpy(blobs[0][:48]), torch.from_numpy(blobs[1][:48])


def test_pcanet_is_the_loop_from_images_to_features(some):
    """Scale, centre each patch, eigenvectors, convolve, each map again by itself, sign, code, block histograms."""
    images, labels = some
    config = FamilyConfig(**SMALL, normalisation="none")
    network = fit_member(images, labels, 6, config, CPU, 10**9)
    x = (images.double().numpy() - float(images.min())) / float(images.max() - images.min())

    def filters(maps, count):
        vectors = np.array([p for image in naive.patches(maps, 3) for p in image]).reshape(-1, maps.shape[1], 9)
        centred = (vectors - vectors.mean(2, keepdims=True)).reshape(len(vectors), -1)
        _, eigenvectors = np.linalg.eigh(centred.T @ centred)
        return eigenvectors[:, ::-1][:, :count].T

    first = filters(x, 4)
    ours = network.stages[0].weights.flatten(1).numpy()
    np.testing.assert_allclose(np.abs((first * ours).sum(1)), 1, atol=1e-9)
    maps = naive.convolve(x, ours.reshape(4, 3, 3, 3), np.zeros(4))
    alone = maps.reshape(48 * 4, 1, 12, 12)
    second = filters(alone, 3)
    ours = network.stages[1].weights.flatten(1).numpy()
    np.testing.assert_allclose(np.abs((second * ours).sum(1)), 1, atol=1e-9)
    last = naive.convolve(alone, ours.reshape(3, 1, 3, 3), np.zeros(3)).reshape(48, 12, 12, 12)
    expected = naive.code_histograms(last, 3, (4, 4), (2, 2)).reshape(48, -1)
    (_, _), (_, final) = network.staged_maps(images)
    np.testing.assert_allclose(final.numpy(), last, atol=1e-9)
    np.testing.assert_array_equal(network.features(final).numpy(), expected)


def test_sums_from_products_of_images_are_those_over_patches(generator):
    inputs = torch.rand(10 * 2, 3, 6, 5, generator=generator, dtype=torch.float64)  # ten images of two maps
    group = torch.tensor([0, 1, 1, 3, 0, 0, 1, 3, 3, 3])
    parts = [(group[:4], inputs[:8]), (group[4:], inputs[8:])]
    ours = sums_of_images(parts, 4, maps=2, size=3)
    patches = [(where, extract_patches(x, 3).reshape(len(where), -1, 27)) for where, x in parts]
    theirs = sum_by_group(patches, 4)
    for name in ("images", "outer", "by_position"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize("normalisation", ["zero-mean", "z-score", "plain"])
@pytest.mark.parametrize("chunk", [3, 100])
def test_all_views_of_a_stages_patches_are_normalised_alike(generator, normalisation, chunk):
    maps = torch.rand(7, 2, 6, 6, generator=generator, dtype=torch.float64)
    labels = torch.arange(7) % 3

    def inputs(index):
        return maps[index].flatten(0, 1)[:, None]

    source = StagePatches(inputs, labels, 2, (1, 6, 6), 3, normalisation, chunk)
    x = np.array(naive.patches(maps.reshape(14, 1, 6, 6).numpy(), 3))  # (maps, positions, 9)
    if normalisation != "plain":
        x = x - x.mean(2, keepdims=True)
    if normalisation == "z-score":
        x = x / x.std(2, keepdims=True)
    flat = x.reshape(-1, 9)
    centred = flat - flat.mean(0) if normalisation == "plain" else flat
    np.testing.assert_allclose(source.covariance(), centred.T @ centred / len(flat), atol=1e-10)
    image, row, column = torch.tensor([13, 0, 5, 5]), torch.tensor([0, 3, 1, 2]), torch.tensor([2, 0, 3, 1])
    np.testing.assert_allclose(
        source.gather(image, row, column), x.reshape(14, 4, 4, 9)[image, row, column], atol=1e-10
    )
    sums = source.class_moments()
    assert sums.images.tolist() == [3, 2, 2]
    assert sums.positions == 2 * 16
    expected = x.reshape(7, 32, 9)[labels == 1].sum(0)
    np.testing.assert_allclose(sums.by_position[1], expected, atol=1e-10)
    assert source.labels.tolist() == labels.repeat_interleave(2).tolist()


def test_z_scored_filtering_is_the_loop(generator):
    x = torch.rand(2, 3, 5, 4, generator=generator, dtype=torch.float64)
    stage = Stage(torch.randn(2, 3, 3, 3, generator=generator).double(), torch.tensor([0.5, 0.0]).double())
    found = filter_maps(x, stage, "z-score").numpy()
    framed = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)))
    for r in range(5):
        for q in range(4):
            patch = framed[:, :, r : r + 3, q : q + 3]
            patch = patch - patch.mean((2, 3), keepdims=True)
            patch = patch / patch.std((2, 3), keepdims=True)
            expected = np.einsum("ncij,dcij->nd", patch, stage.weights.numpy()) + stage.bias.numpy()
            np.testing.assert_allclose(found[:, :, r, q], expected, atol=1e-10)


def test_flat_patches_have_no_z_score():
    assert bool((z_score_patches(torch.full((2, 9), 0.3), 1) == 0).all())


@pytest.mark.parametrize("options", [{}, {"growth": "across", "bits": 3, "between": "mean-pool", "patches": "z-score"}])
def test_scores_do_not_depend_on_the_chunk(some, options, monkeypatch):
    images, labels = some
    config = FamilyConfig(**SMALL, **options)
    whole = fit_member(images, labels, 6, config, CPU, 10**9)
    monkeypatch.setattr("rescnet.family.fitting.images_at_a_time", lambda *_: 5)
    monkeypatch.setattr("rescnet.family.network.images_at_a_time", lambda *_: 7)
    parts = fit_member(images, labels, 6, config, CPU, 10**9)
    torch.testing.assert_close(parts.outputs(images), whole.outputs(images), atol=1e-6, rtol=1e-6)


def test_kept_maps_equal_recomputed_maps(some, monkeypatch):
    images, labels = some
    config = FamilyConfig(
        filters=(4, 4, 4), filter_sizes=(3,), growth="across", output="second-order", classifier="lda", reads="all",
        block_size=4, block_stride=4, pyramid=(1,), patches="plain",
    )  # fmt: skip
    kept = Fitting(images, labels, 6, config, CPU, 10**9)
    one = kept.run()
    assert kept._kept is not None
    monkeypatch.setattr("rescnet.family.fitting.SHARE_OF_MAPS", 0)
    recomputed = Fitting(images, labels, 6, config, CPU, 10**9)
    other = recomputed.run()
    assert recomputed._kept is None
    assert sorted(one.heads) == [1, 2, 3]
    torch.testing.assert_close(one.outputs(images), other.outputs(images), atol=1e-6, rtol=1e-6)


def test_added_posteriors_are_the_sum_over_stages(some):
    images, labels = some
    config = FamilyConfig(
        filters=(4, 4), filter_sizes=(3,), growth="across", output="second-order", classifier="lda", reads="all",
        block_size=4, block_stride=4, pyramid=(1,), patches="plain", sigmoid_scale=2.0,
    )  # fmt: skip
    network = fit_member(images, labels, 6, config, CPU, 10**9)
    expected = 0
    for number, maps in network.staged_maps(images):
        expected = expected + torch.sigmoid(network.heads[number].scores(network.features(maps)) / 2)
    torch.testing.assert_close(network.outputs(images), expected)


def test_filters_can_be_learned_from_some_of_the_images(some):
    images, labels = some
    few = fit_member(images, labels, 6, FamilyConfig(**SMALL, patch_images=10), CPU, 10**9)
    chosen = torch.linspace(0, 47, 10).long()
    alone = Fitting(images[chosen], labels[chosen], 6, FamilyConfig(**SMALL), CPU, 10**9)
    alone.network.input_range = few.input_range
    expected = alone._learn_stage(1, torch.Generator()).weights
    torch.testing.assert_close(few.stages[0].weights, expected)


SECOND_ORDER = {
    "filters": (6, 6), "filter_sizes": (3,), "output": "second-order", "classifier": "lda", "block_size": 4,
    "block_stride": 1,
}  # fmt: skip


@pytest.mark.parametrize("few", [1.0, 0.0], ids=["by rows", "by their scatter"])
def test_too_little_memory_is_refused_first(some, few, monkeypatch):
    monkeypatch.setattr("rescnet.stages.moments.FEW", few)
    what = ".* features of 48 images" if few else "the scatter of .* features"
    with pytest.raises(ValueError, match=rf"max_memory must be at least .* for {what}, got 1 MB"):
        fit_member(*some, 6, FamilyConfig(**SECOND_ORDER), CPU, 10**6)


@pytest.mark.parametrize("reads", ["last", "all"])
def test_an_lda_of_few_images_needs_no_scatter_and_is_the_same(some, reads, monkeypatch):
    """Features of few images are held in memory, in which the scatter of all features would not fit."""
    config = FamilyConfig(**SECOND_ORDER, pyramid=(1,), reads=reads)
    features = config.features(some[0].shape[1:], 2)
    memory = 20 * features**2  # less than three matrices in float64
    rows = fit_member(*some, 6, config, CPU, memory)
    monkeypatch.setattr("rescnet.stages.moments.FEW", 0.99 * len(some[0]) / features)  # now they are many
    with pytest.raises(ValueError, match="for the scatter of"):
        fit_member(*some, 6, config, CPU, memory)
    scatter = fit_member(*some, 6, config, CPU, 10**8)
    assert set(rows.heads) == set(scatter.heads) == ({1, 2} if reads == "all" else {2})
    for number, head in rows.heads.items():
        torch.testing.assert_close(head.weights, scatter.heads[number].weights, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(head.bias, scatter.heads[number].bias, rtol=1e-6, atol=1e-6)


def test_pca_bias_removes_the_mean_of_the_maps(some):
    """With a bias, the mean of each map is zero away from the border; without, the first filter sees brightness."""
    images, labels = some
    sizes = {"filters": (4, 5), "filter_sizes": (3,), "block_size": 4, "block_stride": 2, "pyramid": (1,)}
    for bias in ("mean", "none"):
        config = make_member("multilayer-pcanet", images.shape[1:], sizes | {"pca_bias": bias})
        network = fit_member(images, labels, 6, config, CPU, 10**9)
        for number, maps in network.staged_maps(images):
            means = maps[:, :, 1:-1, 1:-1].mean((0, 2, 3)).abs()  # away from the zero padding
            assert (means.max() < 1e-5) == (bias == "mean"), number
