"""Half-precision versions of stages against the stages, in float64."""

from __future__ import annotations

import pytest
import torch

from rescnet.fused.half_precision import (
    CopiedPatchSums,
    FoldedScale,
    convolve_scaled,
    raw_input,
    scale_covariance,
    scale_mean,
)
from rescnet.numerics import linear_algebra
from rescnet.numerics.linear_algebra import accurate_product, add_gram_, padded_size, scores_in_half, split
from rescnet.stages.convolution import convolve
from rescnet.stages.discriminant import LinearHead
from rescnet.stages.images import ValueRange, concatenate, min_max_scale
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


@pytest.mark.parametrize("size", [64, 128 + 192])
def test_gram_of_halves_fills_the_lower_triangle(size, generator, monkeypatch):
    monkeypatch.setattr(linear_algebra, "PANEL", 128)
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


@pytest.mark.parametrize("given", [70, 100, 128])
def test_scores_of_weights_of_any_size(given, generator):
    """Columns from 1e-12 to 1e9, one of zeros, and features that are padded, aligned or neither."""
    weights = torch.randn(70, 6, generator=generator) * torch.tensor([1e-12, 1e-6, 0.0, 1.0, 1e5, 1e9])
    features = torch.randn(40, given, generator=generator).half()
    features[:, 70:] = 0
    exact = features[:, :70].double() @ weights.double()
    found = scores_in_half(features.to(DEVICE), weights.to(DEVICE)).cpu().double()
    assert float(((found - exact).norm(dim=0) / exact.norm(dim=0).clamp_min(1e-30)).max()) < 2e-6


def test_a_head_ignores_padding(generator):
    weights, bias = torch.randn(70, 6, generator=generator).to(DEVICE), torch.randn(6, generator=generator).to(DEVICE)
    head = LinearHead(weights, bias, torch.ones(6, dtype=torch.bool, device=DEVICE))
    features = torch.randn(40, 70, generator=generator).half().to(DEVICE)
    exact = features.double() @ weights.double() + bias.double()
    assert relative_error(head.scores(features), exact) < 2e-6
    assert relative_error(head.scores(torch.nn.functional.pad(features, (0, 58))), exact) < 2e-6


def test_sizes_are_padded_to_the_alignment():
    assert [padded_size(n) for n in (1, 64, 65, 17150)] == [64, 64, 128, 17152]
