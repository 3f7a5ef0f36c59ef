from __future__ import annotations

import naive
import numpy as np
import pytest
import torch

from rescnet.stages.patches import (
    PatchMoments,
    extract_patches,
    gather_patches,
    remove_means_of_products,
    remove_patch_means,
)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_patches_match_the_loop(k, generator, dtype):
    x = torch.randn(3, 2, 6, 5, generator=generator, dtype=dtype)
    assert np.array_equal(extract_patches(x, k).numpy(), np.array(naive.patches(x.numpy(), k)))


def test_gathered_patches_are_the_named_ones(generator):
    x = torch.randn(4, 3, 6, 7, generator=generator)
    image, row, column = torch.tensor([0, 3, 3, 1]), torch.tensor([0, 4, 2, 1]), torch.tensor([5, 0, 3, 1])
    found = gather_patches(x, 2, image, row, column)
    for s in range(4):
        i, r, c = int(image[s]), int(row[s]), int(column[s])
        assert torch.equal(found[s], x[i, :, r : r + 2, c : c + 2])


def test_covariance_matches_the_loop_whole_and_in_chunks(generator):
    x = torch.randn(5, 2, 6, 6, generator=generator, dtype=torch.float64) + 3
    vectors = [v for image in naive.patches(x.numpy(), 3) for v in image]
    expected = naive.covariance(vectors)
    whole = PatchMoments.of(extract_patches(x, 3))
    chunked = PatchMoments.of(extract_patches(x[:2], 3)) + PatchMoments.of(extract_patches(x[2:], 3))
    assert whole.count == chunked.count == 5 * 16
    np.testing.assert_allclose(whole.covariance().numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(chunked.covariance().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("shape", "k"), [((3, 2, 6, 5), 1), ((3, 2, 6, 5), 2), ((2, 4, 7, 9), 3), ((2, 1, 8, 12), 7)])
def test_sums_of_images_are_those_of_their_patches(shape, k, generator):
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    found, wanted = PatchMoments.of_images(x, k), PatchMoments.of(extract_patches(x, k))
    assert found.count == wanted.count
    torch.testing.assert_close(found.total, wanted.total)
    torch.testing.assert_close(found.outer, wanted.outer)


def test_sums_of_images_do_not_depend_on_threads(generator):
    x, found, threads = torch.randn(5, 3, 9, 9, generator=generator), [], torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            found.append(PatchMoments.of_images(x, 3).outer)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_each_patch_loses_its_mean_per_channel(generator):
    patches = torch.randn(4, 3 * 9, generator=generator)
    centred = remove_patch_means(patches, channels=3)
    for p in range(4):
        for c in range(3):
            part = patches[p, 9 * c : 9 * c + 9]
            torch.testing.assert_close(centred[p, 9 * c : 9 * c + 9], part - part.mean())


def test_covariance_of_patches_less_their_own_means(generator):
    """Computed from the covariance of the patches themselves; each channel loses one dimension of nine."""
    patches = torch.randn(200, 3 * 9, generator=generator, dtype=torch.float64)
    found = remove_means_of_products(torch.cov(patches.T, correction=0), channels=3)
    torch.testing.assert_close(found, torch.cov(remove_patch_means(patches, 3).T, correction=0))
    assert int((torch.linalg.eigvalsh(found) > 1e-10).sum()) == 24
