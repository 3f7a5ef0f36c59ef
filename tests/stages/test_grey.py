"""Patches and filters of grey stacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from stages.patch_sources import source_of
from train_network import train_network

from rescnet import ComputeOptions, NetworkConfig
from rescnet.stages.filters import Filters, GreyPatches

CONFIG = NetworkConfig(
    filters=5, layers=3, block_sizes=(6,), block_stride=2, pyramid=(2, 1), ridge=0.3, stop_at_zero_error=False,
    grey_stack_every=1,
)  # fmt: skip


@pytest.fixture
def both():
    """A colour source, wrapped; and a source of the same maps with images that are grey themselves."""
    generator = torch.Generator().manual_seed(0)
    maps, images = (torch.rand(11, c, 6, 7, dtype=torch.float64, generator=generator) for c in (4, 3))
    labels = torch.arange(11) % 3
    colour, grey = (source_of(given, labels, maps=maps) for given in (images, images.mean(1, keepdim=True)))
    return GreyPatches(colour, 3), grey


def test_grey_patches_are_those_of_grey_images(both):
    made, wanted = both
    assert (made.channels, made.size, made.rows, made.columns) == (5, 3, 4, 5)
    torch.testing.assert_close(made.mean(), wanted.mean())
    torch.testing.assert_close(made.covariance(), wanted.covariance())
    where = torch.tensor([0, 10, 4]), torch.tensor([0, 3, 1]), torch.tensor([4, 0, 2])
    torch.testing.assert_close(made.gather(*where), wanted.gather(*where))
    for name in ("images", "outer", "by_position"):
        found, expected = (getattr(source.class_moments(2), name) for source in both)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_filters_in_colour_respond_as_on_the_grey_image(both):
    made, wanted = both
    filters = Filters(torch.randn(6, 45, dtype=torch.float64), torch.randn(6, dtype=torch.float64))
    coloured = made.in_colour(filters)
    where = torch.tensor([3, 7]), torch.tensor([1, 2]), torch.tensor([0, 4])
    responses = made._source.gather(*where) @ coloured.weights.T + coloured.bias
    torch.testing.assert_close(responses, wanted.gather(*where) @ filters.weights.T + filters.bias)
    image = coloured.weights.view(6, 7, 9)[:, 4:]
    assert torch.equal(image[:, 0], image[:, 1]) and torch.equal(image[:, 0], image[:, 2])


def test_a_grey_network_is_that_of_grey_images(blobs):
    images, labels = blobs[0][:60].copy(), blobs[1][:60]
    images[0, :, 0, 0], images[0, :, 0, 1] = 0, 255  # so that both have the same range
    grey, compute = images.astype(np.float64).mean(1, keepdims=True), ComputeOptions(dtype="float64")
    made, _ = train_network(images, labels, CONFIG, compute=compute)
    wanted, _ = train_network(grey, labels, replace(CONFIG, grey_stack_every=0, first_filter_size=7), compute=compute)
    torch.testing.assert_close(made.outputs(images), wanted.outputs(grey), rtol=0, atol=1e-8)
