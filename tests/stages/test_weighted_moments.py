"""An image of weight two counts as two images."""

from __future__ import annotations

import pytest
import torch

from rescnet.stages.discriminant import factorise, multiclass_lda, one_vs_rest_lda
from rescnet.stages.moments import Moments

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def data(generator):
    """Features (40, 6), one-hot targets (40, 3), and whole weights of mean 2."""
    features = torch.randn(40, 6, generator=generator) + torch.arange(6)
    targets = torch.nn.functional.one_hot(torch.arange(40) % 3, 3).float()
    return features.to(DEVICE), targets.to(DEVICE), torch.tensor([1, 3, 2, 0, 4] * 8).to(DEVICE)


def sums(features, targets, weights, dtype):
    moments = Moments.zeros(torch.arange(6, device=DEVICE).to(dtype), 3)
    for part in (slice(0, 17), slice(17, None)):
        some = None if weights is None else weights[part].to(dtype)
        moments.add(features[part], targets[part].to(dtype), some)
    return moments


@pytest.mark.parametrize(("kept", "dtype"), [("float64", "float64"), ("float32", "float32"), ("float16", "float32")])
def test_weights_count_images(kept, dtype, data):
    features, targets, weights = data
    features, dtype = features.to(getattr(torch, kept)), getattr(torch, dtype)
    found = sums(features, targets, weights / 2, dtype)
    several = sums(
        features.double().repeat_interleave(weights, 0), targets.repeat_interleave(weights, 0), None, torch.float64
    )
    bound = {"float64": 1e-12, "float32": 1e-5, "float16": 3e-3}[kept]
    assert (found.count, several.count) == (40, 80)
    for name in ("total", "target_total", "cross", "gram"):
        ours, theirs = getattr(found, name).double(), getattr(several, name) / 2
        if name == "gram":
            ours, theirs = ours.tril(), theirs.tril()
        assert float((ours - theirs).norm() / theirs.norm()) < bound, name


def test_heads_are_those_of_repeated_images(data):
    features, targets, weights = data
    found = sums(features.double(), targets, weights / 2, torch.float64)
    several = sums(
        features.double().repeat_interleave(weights, 0), targets.repeat_interleave(weights, 0), None, torch.float64
    )
    for head in (one_vs_rest_lda, multiclass_lda):
        ours, theirs = (head(factorise(moments, 0.1), moments) for moments in (found, several))
        torch.testing.assert_close(ours.weights, theirs.weights)
        torch.testing.assert_close(ours.bias, theirs.bias)
