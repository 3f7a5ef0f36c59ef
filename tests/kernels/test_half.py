"""Half-precision versions of stages against the stages, in float64."""

from __future__ import annotations

import pytest
import torch

from rescnet.kernels.cholesky import blocked_cholesky, blocked_solver, refine
from rescnet.kernels.half_precision import (
    CopiedPatchSums,
    FoldedScale,
    add_dilated,
    convolve_scaled,
    raw_input,
    scale_covariance,
    scale_mean,
)
from rescnet.stages.convolution import convolve
from rescnet.stages.images import ValueRange, concatenate, min_max_scale
from rescnet.stages.mixed_precision import PANEL, accurate_product, add_gram_, padded_size, split
from rescnet.stages.patches import PatchMoments, extract_patches

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def relative_error(found, exact):
    return float((found.double() - exact).norm() / exact.norm())


@pytest.fixture
def inputs(generator):
    strength = torch.tensor([4.0, 1.0, 0.3, 0.05, 2.0]).view(1, 5, 1, 1)
    maps = ((torch.randn(6, 5, 9, 8, generator=generator) + 0.7) * strength).half().to(DEVICE)
    images = torch.rand(6, 3, 9, 8, generator=generator).half().to(DEVICE)
    return maps, images


@pytest.mark.parametrize("scope", ["global", "channel"])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_folded_convolution_equals_scaling_then_convolution(k, scope, inputs, generator):
    maps, images = inputs
    weights = torch.nn.functional.normalize(torch.randn(7, 8 * k * k, generator=generator), dim=1)
    weights, bias = weights.view(7, 8, k, k).to(DEVICE), torch.randn(7, generator=generator).to(DEVICE)
    joined = concatenate(maps.double(), images.double())
    fitted = ValueRange.of(joined).with_scope(scope)
    exact = convolve(min_max_scale(joined, fitted), weights.double(), bias.double())
    found = convolve_scaled(maps, images, FoldedScale.of(fitted), weights, bias)
    assert relative_error(found, exact) < 1e-3
    first = convolve_scaled(None, images, FoldedScale.of(ValueRange.of(images.double())), weights[:, :3], bias)
    exact = convolve(
        min_max_scale(images.double(), ValueRange.of(images.double())), weights[:, :3].double(), bias.double()
    )
    assert relative_error(first, exact) < 1e-3


@pytest.mark.parametrize("k", [1, 3, 4])
def test_patch_covariance_without_scaling_the_maps(k, inputs):
    maps, images = inputs
    joined = concatenate(maps.double(), images.double())
    fitted = ValueRange.of(joined).with_scope("channel")
    exact = PatchMoments.of(extract_patches(min_max_scale(joined, fitted), k))
    sums = CopiedPatchSums(8, k)
    sums.add(raw_input(maps[:2], images[:2]))
    sums.add(raw_input(maps[2:], images[2:]))
    found = sums.moments()
    assert found.count == exact.count
    assert relative_error(scale_mean(found.mean(), FoldedScale.of(fitted), k), exact.mean()) < 1e-3
    covariance = scale_covariance(found.covariance(), FoldedScale.of(fitted), k)
    assert relative_error(covariance, exact.covariance()) < 1e-4


@pytest.mark.parametrize(("k", "dilation"), [(3, 2), (2, 3), (3, 4), (1, 2)])
def test_dilated_convolution_and_patch_sums(k, dilation, inputs, generator):
    maps, images = inputs
    weights = torch.nn.functional.normalize(torch.randn(7, 8 * k * k, generator=generator), dim=1)
    weights, bias = weights.view(7, 8, k, k).to(DEVICE), torch.randn(7, generator=generator).to(DEVICE)
    joined = concatenate(maps.double(), images.double())
    fitted = ValueRange.of(joined).with_scope("channel")
    exact = convolve(min_max_scale(joined, fitted), weights.double(), bias.double(), dilation)
    found = convolve_scaled(maps, images, FoldedScale.of(fitted), weights, bias, dilation)
    assert relative_error(found, exact) < 1e-3
    if dilation * (k - 1) < 8:
        wanted = PatchMoments.of(extract_patches(joined, k, dilation))
        sums = CopiedPatchSums(8, k)
        add_dilated(sums, raw_input(maps, images), k, dilation)
        assert sums.moments().count == wanted.count
        assert relative_error(sums.moments().outer, wanted.outer) < 1e-4
        assert relative_error(sums.moments().total, wanted.total) < 1e-3


@pytest.mark.parametrize("size", [64, PANEL + 192])
def test_gram_of_halves_fills_the_lower_triangle(size, generator):
    x = torch.randn(80, size, generator=generator).half().to(DEVICE)
    gram = torch.zeros(size, size, device=DEVICE)
    add_gram_(gram, x[:30])
    add_gram_(gram, x[30:])
    exact = x.double().T @ x.double()
    assert relative_error(gram.tril(), exact.tril()) < 1e-6


def test_split_halves_lose_nothing_that_matters(generator):
    weights = torch.randn(128, 6, generator=generator).to(DEVICE)
    features = torch.randn(40, 128, generator=generator).half().to(DEVICE)
    assert relative_error(accurate_product(features, weights), features.double() @ weights.double()) < 2e-6
    high, low = split(weights)
    assert float((high.double() + low.double() - weights.double()).abs().max()) < 2e-6


def realistic_scatter(size, generator, ridge, decay=1.3):
    """Correlated unit-variance features whose spectrum falls off as that of real ones, plus a ridge."""
    basis = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
    spectrum = size * torch.arange(1, size + 1).double() ** -decay
    scatter = basis * spectrum @ basis.T
    root = scatter.diagonal().sqrt()
    return scatter / root / root[:, None] + ridge * torch.eye(size, dtype=torch.float64)


@pytest.mark.parametrize("block", [64, 100, 1000])
@pytest.mark.parametrize("ridge", [0.03, 0.3])
def test_blocked_factor_solves_and_refinement_makes_it_exact(block, ridge, generator):
    matrix = realistic_scatter(300, generator, ridge)
    right = torch.randn(300, 4, generator=generator, dtype=torch.float64)
    exact = torch.linalg.solve(matrix, right).to(DEVICE)
    single = matrix.float().to(DEVICE)
    factor = blocked_cholesky(single.clone(), block)
    plain = factor.solve(right.float().to(DEVICE))
    refined, converged = refine(single.clone(), factor, right.float().to(DEVICE), tolerance=1e-5)
    assert converged
    assert relative_error(plain, exact) < 0.05
    assert relative_error(refined, exact) < 1e-4


def test_the_solution_is_as_good_as_the_features(generator):
    matrix = realistic_scatter(300, generator, 0.1)
    right = torch.randn(300, 4, generator=generator, dtype=torch.float64)
    found = blocked_solver(matrix.float().to(DEVICE), 64)(right.float().to(DEVICE))
    assert relative_error(matrix.to(DEVICE) @ found.double(), right.to(DEVICE)) < 1e-3


def test_blocked_factorisation_notices_failure(generator):
    matrix = realistic_scatter(200, generator, 0.1).float()
    matrix[150, 150] = -1.0
    assert blocked_cholesky(matrix.to(DEVICE), 64) is None


def test_refinement_says_when_the_factor_is_too_poor(generator):
    matrix = realistic_scatter(200, generator, 1e-3).float().to(DEVICE)
    other = blocked_cholesky(realistic_scatter(200, generator, 0.1).float().to(DEVICE), 64)
    _, converged = refine(matrix.clone(), other, torch.randn(200, 2, generator=generator).to(DEVICE), 1e-6, 2)
    assert not converged


def test_sizes_are_padded_to_the_alignment():
    assert [padded_size(n) for n in (1, 64, 65, 17150)] == [64, 64, 128, 17152]


@pytest.mark.parametrize("ridge", [1e-6, 2e-5])
def test_where_blocks_fail_the_plain_factorisation_is_tried(ridge, generator):
    """A ridge below half precision's rounding: the blocked factor breaks down or is poor, the float32 one is not."""
    matrix = realistic_scatter(300, generator, ridge, decay=2).float().to(DEVICE)
    right = torch.randn(300, 2, generator=generator).to(DEVICE)
    factor = blocked_cholesky(matrix.clone(), 64)
    assert factor is None or not refine(matrix.clone(), factor, right)[1]
    found = blocked_solver(matrix.clone(), 64)(right)
    assert relative_error(matrix.double() @ found.double(), right.double()) < 0.05
