from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rescnet.stages.images import ValueRange, concatenate, min_max_scale


def naive_scale(x, train, scope):
    out = torch.empty_like(x)
    for c in range(x.shape[1]):
        seen = train if scope == "global" else train[:, c]
        low, high = seen.min().item(), seen.max().item()
        out[:, c] = (x[:, c] - low) / (high - low) if high > low else 0
    return out


@pytest.mark.parametrize("scope", ["global", "channel"])
def test_scaling_is_fitted_on_training_images_and_applied_to_new_ones(scope, generator, dtype):
    train = torch.randn(7, 3, 4, 5, generator=generator, dtype=dtype) * torch.tensor([1, 5, 9]).view(1, 3, 1, 1)
    new = 3 * torch.randn(2, 3, 4, 5, generator=generator, dtype=dtype)
    fitted = ValueRange.of(train).with_scope(scope)
    torch.testing.assert_close(min_max_scale(new, fitted), naive_scale(new, train, scope))
    scaled = min_max_scale(train, fitted)
    assert scaled.min() == 0
    assert scaled.max() == pytest.approx(1)


def test_maps_and_image_may_each_have_a_range_of_their_own():
    x = torch.tensor([[-4.0, 2.0], [1.0, 4.0], [0.25, 0.5], [0.0, 0.125]]).T.reshape(2, 4, 1, 1)
    fitted = ValueRange.of(x).with_scope("source", maps=2)
    assert fitted.low.tolist() == [-4, -4, 0, 0]
    assert fitted.high.tolist() == [4, 4, 0.5, 0.5]
    alone = ValueRange.of(x).with_scope("source")  # before the first layer there are no maps
    assert alone.low.tolist() == [-4] * 4


def test_a_constant_channel_becomes_zero():
    x = torch.stack([torch.full((3, 4, 4), 7.0), torch.rand(3, 4, 4)], dim=1)
    scaled = min_max_scale(x, ValueRange.of(x))
    assert bool((scaled[:, 0] == 0).all())
    assert bool(scaled.isfinite().all())


@given(cut=st.integers(1, 8))
def test_ranges_stream(cut):
    x = torch.randn(9, 2, 3, 3, generator=torch.Generator().manual_seed(cut))
    merged = ValueRange.of(x[:cut]).merge(ValueRange.of(x[cut:]))
    assert torch.equal(merged.low, ValueRange.of(x).low)
    assert torch.equal(merged.high, ValueRange.of(x).high)


def test_maps_come_before_the_image():
    maps, images = torch.ones(2, 5, 3, 3), torch.zeros(2, 1, 3, 3)
    joined = concatenate(maps, images)
    assert joined.shape == (2, 6, 3, 3)
    assert bool((joined[:, :5] == 1).all() and (joined[:, 5] == 0).all())
    assert concatenate(None, images) is images
